-- The journal is `entries`; `sessions`, `running_sessions`, `snapshots`, `past_snapshots`, `request_ids`, `reviewers`,
-- `interruptions` and `rules` are derived from it and only save reading it. Inside the file a session is named by a small
-- number (`sessions.number`; `session` elsewhere). The key of an entry or interruption is that
-- number and its own in one integer (number << 32 | position), so that a session's rows are adjacent.
-- A column of type ANY has content: TEXT in a plain store, a BLOB in a sealed one.

CREATE TABLE sessions (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    pos        INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    tenant     TEXT,
    subject    TEXT,
    title      ANY,
    status     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    pending    TEXT NOT NULL,
    -- The highest format of its entries: a build that knows only earlier ones leaves the session alone.
    format     INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_used ON sessions (updated_at);
CREATE INDEX sessions_subject ON sessions (tenant, subject, updated_at) WHERE subject IS NOT NULL;

-- The sessions that are running, and some that were: those are forgotten when the log is written back.
CREATE TABLE running_sessions (session INTEGER PRIMARY KEY) STRICT;

-- The last number that was given to a session or a copy. None is given twice: pending work on one that is gone must
-- never touch another.
CREATE TABLE session_numbers (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), last INTEGER NOT NULL) STRICT;
INSERT INTO session_numbers VALUES (1, 0);
-- Numbers of sessions whose entries are being copied, or whose copy was given up, or that were deleted: entries under
-- them belong to no session, and are removed.
CREATE TABLE unowned_entries (session INTEGER PRIMARY KEY) STRICT;
-- The ids of deleted sessions, which are never used again: an approval or a request that names one would count for
-- another session.
CREATE TABLE deleted_sessions (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE entries (key INTEGER PRIMARY KEY, body ANY NOT NULL) STRICT;
CREATE VIEW journal AS
    SELECT s.id AS session_id, e.key & 4294967295 AS pos, e.body
    FROM entries e JOIN sessions s ON s.number = e.key >> 32;

-- `version` is that of the folding: a snapshot of another version is ignored.
CREATE TABLE snapshots (session INTEGER PRIMARY KEY, version INTEGER NOT NULL, pos INTEGER NOT NULL, body ANY NOT NULL) STRICT;

-- States of sessions at past positions: a cache, from which the past is folded. The key is that of the last entry
-- folded into it, the version that of the folding.
CREATE TABLE past_snapshots (key INTEGER PRIMARY KEY, version INTEGER NOT NULL, body ANY NOT NULL) STRICT;

-- The `request_id`s of inputs, by which one that is sent again is known. `sent_by` is empty for the session's owner.
-- `purpose`: what it was for; a queued message carries it again when it is taken up. `fingerprint` tells a repeat from
-- another request.
CREATE TABLE request_ids (
    session     INTEGER NOT NULL,
    id          TEXT NOT NULL,
    sent_by     TEXT NOT NULL,
    purpose     TEXT NOT NULL,
    fingerprint TEXT,
    PRIMARY KEY (session, id, sent_by)
) STRICT, WITHOUT ROWID;

-- Each row carries the columns by which visibility is decided beside the time it is sorted by, so that each list is
-- read from an index in its order, and never looks at rows its caller may not see. The columns are the session's; only
-- its last use ever changes.

CREATE TABLE reviewers (
    session    INTEGER NOT NULL,
    role       TEXT NOT NULL,
    tenant     TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, role)
) STRICT, WITHOUT ROWID;
CREATE INDEX reviewers_used ON reviewers (tenant, role, updated_at);

CREATE TABLE interruptions (
    key          INTEGER PRIMARY KEY,
    tenant       TEXT,
    subject      TEXT,
    role         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    tools        TEXT NOT NULL,
    asked_at     INTEGER NOT NULL,
    expires_at   INTEGER,
    remind_at    INTEGER,
    asked_pos    INTEGER NOT NULL,
    resolution   TEXT,
    resolved_at  INTEGER,
    resolved_pos INTEGER,
    -- Its place in lists, the highest first: see InterruptionRow::place.
    place        INTEGER AS (CASE WHEN resolution IS NOT NULL THEN asked_at
                             WHEN expires_at IS NULL THEN (1 << 61) + asked_at ELSE (1 << 62) - expires_at END)
) STRICT;
-- Pending ones have the places from 1 << 61 on, and the soonest deadlines the highest: so each index has both halves of its
-- list, and the first one the deadlines.
CREATE INDEX interruptions_place ON interruptions (place);
CREATE INDEX interruptions_subject ON interruptions (tenant, subject, place) WHERE subject IS NOT NULL;
CREATE INDEX interruptions_role ON interruptions (tenant, role, place);
CREATE INDEX interruptions_role_place ON interruptions (role, place);
CREATE INDEX interruptions_remind ON interruptions (remind_at) WHERE resolution IS NULL AND remind_at IS NOT NULL;

-- Standing rules ("always"), derived from the journal. `key` is that of the interruption it was made in, as in
-- `interruptions`; `action` says which of its actions. Only `body` is trusted; the columns beside it are for searching.
CREATE TABLE rules (
    row        INTEGER PRIMARY KEY,
    key        INTEGER NOT NULL,
    action     INTEGER NOT NULL,
    subject    TEXT,
    tenant     TEXT,
    agent      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    scope      TEXT NOT NULL,
    role       TEXT,
    made_by    TEXT,
    body       ANY NOT NULL,
    made_at    INTEGER NOT NULL,
    until      INTEGER,
    revoked_at INTEGER,
    UNIQUE (key, action)
) STRICT;
CREATE INDEX rules_standing ON rules (subject, tool, agent) WHERE scope <> 'session' AND revoked_at IS NULL;
CREATE INDEX rules_made ON rules (made_at);
CREATE INDEX rules_subject ON rules (tenant, subject, made_at) WHERE subject IS NOT NULL;
CREATE INDEX rules_maker ON rules (tenant, made_by, made_at) WHERE made_by IS NOT NULL;
CREATE INDEX rules_role ON rules (tenant, role, made_at) WHERE role IS NOT NULL;

-- What people were asked and decided, chained by hashes. Unlike the other tables it is never rebuilt from the journal:
-- it stays when a session is deleted, and is append-only. The body of a record has the tenant too: the column is for
-- searching. `tenants_since` is the number of the first record that has a tenant, in that one and all after it: earlier
-- ones belong to no tenant and are in no index, so a store without tenants writes none.
CREATE TABLE audit (
    n             INTEGER PRIMARY KEY,
    hash          BLOB NOT NULL,
    body          ANY NOT NULL,
    tenant        TEXT,
    tenants_since INTEGER
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant) WHERE tenants_since IS NOT NULL;

-- The key state of a sealed store; both tables are empty in a plain one. `name` is the store's own random name, to
-- which every sealed value is bound. `mixed` is set while plain values are being sealed, or sealed ones opened.
CREATE TABLE encryption (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), name BLOB NOT NULL, mixed BLOB) STRICT;
-- The keys of its values; `proof` is a value that only the right key opens.
CREATE TABLE encryption_keys (id TEXT PRIMARY KEY, proof BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- Written by the readiness check.
CREATE TABLE write_probe (only_row INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
