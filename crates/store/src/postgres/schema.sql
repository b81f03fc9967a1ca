-- As in the SQLite store the journal is `entries`; `sessions`, `snapshots`, `request_ids`, `reviewers`, `interruptions` and
-- `rules` are derived from it and only save reading it. Inside the database a session is named by a number
-- (`sessions.number`; `session` elsewhere), which is never given again.
--
-- What people, models or programs have written is `bytea`: PostgreSQL's text takes no NUL character and is ordered by its
-- locale, bytes are kept as they are and ordered as Rust orders strings. `convert_from(body, 'UTF8')` shows one.
-- `tenant` is never NULL: no tenant is an empty value, and any other follows an '='. An index is read in its order only where
-- its first columns are equal to something, and nothing is equal to NULL.

-- That the tables are ours, and the version of them and of their contents; `probed` is written by the readiness check, `copy` is
-- the id of the copy that the store is of, if it is one. `timeline` is the database's, and `synchronous` says that its commits wait
-- for standbys: by them it shows whether it went back to an earlier state. With `notification_key` nodes seal what they tell each other of
-- sessions: any role of the database may listen to notifications, and few read this.
CREATE TABLE countersign (
    only_row         boolean PRIMARY KEY CHECK (only_row),
    version          integer NOT NULL,
    probed           bigint NOT NULL,
    copy             text,
    notification_key bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    timeline         bigint NOT NULL DEFAULT 0,
    synchronous      boolean NOT NULL DEFAULT false
);

CREATE TABLE sessions (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         bytea NOT NULL UNIQUE,
    pos        bigint NOT NULL,
    agent      bytea NOT NULL,
    tenant     bytea NOT NULL,
    subject    bytea,
    title      bytea,
    status     text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    pending    bigint[] NOT NULL,
    -- The node that has the lease of the session's effects, and the number of that lease: how often one was taken.
    node       bigint,
    epoch      bigint NOT NULL,
    -- The format of records that whoever reads it has to know.
    format     bigint NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX sessions_used ON sessions (updated_at, id);
CREATE INDEX sessions_subject ON sessions (tenant, subject, updated_at, id) WHERE subject IS NOT NULL;
CREATE INDEX sessions_running ON sessions (id) WHERE status = 'running';
CREATE INDEX sessions_leased ON sessions (node) WHERE node IS NOT NULL;

-- The processes that use the store, and until when the leases of each last, by this database's clock.
CREATE TABLE nodes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, until timestamptz NOT NULL);

-- The ids of all sessions, and of those that were deleted. None is used again: an approval or a request that names one would count
-- for another session.
CREATE TABLE session_ids (id bytea PRIMARY KEY);

CREATE TABLE entries (session bigint, pos bigint, body bytea NOT NULL, PRIMARY KEY (session, pos));

-- `version` is that of the folding: a snapshot of another version is ignored. `pos` is the position that it is the state at.
CREATE TABLE snapshots (session bigint PRIMARY KEY, version bigint NOT NULL, pos bigint NOT NULL, body bytea NOT NULL);

-- States of sessions at past positions: a cache, from which the past is folded.
CREATE TABLE past_snapshots (session bigint, pos bigint, version bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (session, pos));

-- The `request_id`s of inputs, by which one that is sent again is known. `sent_by` is empty for the session's owner. `purpose`: what
-- it was for; a queued message carries it again when it is taken up. `fingerprint` tells a repeat from another request.
CREATE TABLE request_ids (
    session     bigint,
    id          bytea,
    sent_by     bytea,
    purpose     text NOT NULL,
    fingerprint text,
    PRIMARY KEY (session, id, sent_by)
);

-- Each row carries the columns by which visibility is decided and by which its list is ordered, so that each list is read
-- from an index in its order, and never looks at rows its caller may not see. The columns are the session's; only its last
-- use ever changes.

CREATE TABLE reviewers (
    session    bigint,
    role       bytea,
    session_id bytea NOT NULL,
    tenant     bytea NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (session, role)
);
CREATE INDEX reviewers_used ON reviewers (tenant, role, updated_at, session_id);

CREATE TABLE interruptions (
    session      bigint,
    number       bigint,
    session_id   bytea NOT NULL,
    tenant       bytea NOT NULL,
    subject      bytea,
    role         bytea NOT NULL,
    agent        bytea NOT NULL,
    tools        bytea[] NOT NULL,
    asked_at     bigint NOT NULL,
    expires_at   bigint,
    remind_at    bigint,
    asked_pos    bigint NOT NULL,
    resolution   text,
    resolved_at  bigint,
    resolved_pos bigint,
    -- Until when only the node that looked last sees to its deadline or reminder.
    seen_to      timestamptz,
    -- Its place in lists, the highest first: see InterruptionRow::place.
    place        bigint GENERATED ALWAYS AS (CASE WHEN resolution IS NOT NULL THEN asked_at
                     WHEN expires_at IS NULL THEN (1::bigint << 61) + asked_at
                     ELSE (1::bigint << 62) - expires_at END) STORED,
    PRIMARY KEY (session, number)
);
CREATE INDEX waiting_place ON interruptions (place, session_id, number) WHERE resolution IS NULL;
CREATE INDEX waiting_subject ON interruptions (tenant, subject, place, session_id, number)
    WHERE resolution IS NULL AND subject IS NOT NULL;
CREATE INDEX waiting_role ON interruptions (tenant, role, place, session_id, number) WHERE resolution IS NULL;
CREATE INDEX waiting_role_place ON interruptions (role, place, session_id, number) WHERE resolution IS NULL;
CREATE INDEX resolved_place ON interruptions (place, session_id, number) WHERE resolution IS NOT NULL;
CREATE INDEX resolved_subject ON interruptions (tenant, subject, place, session_id, number)
    WHERE resolution IS NOT NULL AND subject IS NOT NULL;
CREATE INDEX resolved_role ON interruptions (tenant, role, place, session_id, number)
    WHERE resolution IS NOT NULL;
CREATE INDEX resolved_role_place ON interruptions (role, place, session_id, number)
    WHERE resolution IS NOT NULL;
CREATE INDEX interruptions_due ON interruptions (expires_at, session_id, number) WHERE resolution IS NULL AND expires_at IS NOT NULL;
CREATE INDEX interruptions_remind ON interruptions (remind_at, session_id, number) WHERE resolution IS NULL AND remind_at IS NOT NULL;

-- Standing rules ("always"), derived from the journal. `interruption` is the number of the one it was made in, `action` says
-- which of its actions, `number` orders them. Only `body` is trusted; the columns beside it are for searching.
CREATE TABLE rules (
    session      bigint,
    interruption bigint,
    action       bigint,
    number       bigint NOT NULL,
    session_id   bytea NOT NULL,
    subject      bytea,
    tenant       bytea NOT NULL,
    agent        bytea NOT NULL,
    tool         bytea NOT NULL,
    scope        text NOT NULL,
    role         bytea,
    made_by      bytea,
    body         bytea NOT NULL,
    made_at      bigint NOT NULL,
    until        bigint,
    revoked_at   bigint,
    PRIMARY KEY (session, interruption, action)
);
CREATE INDEX rules_standing ON rules (tenant, subject, tool, agent) WHERE scope <> 'session' AND revoked_at IS NULL;
CREATE INDEX rules_made ON rules (made_at, session_id, number);
CREATE INDEX rules_subject ON rules (tenant, subject, made_at, session_id, number) WHERE subject IS NOT NULL;
CREATE INDEX rules_maker ON rules (tenant, made_by, made_at, session_id, number) WHERE made_by IS NOT NULL;
CREATE INDEX rules_role ON rules (tenant, role, made_at, session_id, number) WHERE role IS NOT NULL;

-- What people were asked and decided, chained by hashes. Unlike the other tables it is never rebuilt from the journal:
-- it stays when a session is deleted, and is append-only. The body of a record has the tenant too: the column is for
-- searching.
CREATE TABLE audit (n bigint PRIMARY KEY, hash bytea NOT NULL, body bytea NOT NULL, tenant bytea NOT NULL);
CREATE INDEX audit_tenant ON audit (tenant, n);
-- Records that are not in the log yet: they are stored with their appends, and chained within a second. Those of one session
-- are numbered in its order.
CREATE TABLE audit_queue (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL, tenant bytea NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- The last record: whoever chains the next ones locks it.
CREATE TABLE audit_head (only_row boolean PRIMARY KEY CHECK (only_row), n bigint NOT NULL, hash bytea NOT NULL);
INSERT INTO audit_head VALUES (true, 0, decode(repeat('0', 64), 'hex'));

-- Where deliveries of the audit log stand: the number of the last record that is dealt with, the node that sends, and a row for
-- each record before it that did not arrive.
CREATE TABLE endpoints (
    name   bytea PRIMARY KEY,
    cursor bigint NOT NULL,
    node   bigint NOT NULL,
    gone   boolean NOT NULL DEFAULT false
);
CREATE TABLE failed_deliveries (
    endpoint bytea,
    n        bigint,
    attempts bigint NOT NULL,
    next_at  bigint,
    tried_at bigint NOT NULL,
    why      bytea NOT NULL,
    PRIMARY KEY (endpoint, n)
);
CREATE INDEX failed_deliveries_due ON failed_deliveries (endpoint, next_at, n) WHERE next_at IS NOT NULL;
CREATE INDEX failed_deliveries_dead ON failed_deliveries (endpoint, n) WHERE next_at IS NULL;
CREATE INDEX failed_deliveries_tried ON failed_deliveries (endpoint, tried_at, n);
