-- Standing rules ("always"), from the journal: what makes one and what ends it are records there. `key` is the number of
-- the interruption it was made in, as in `interruptions`; `action` is which of its actions. `body` is all of it, and the
-- only thing that is believed; the columns beside it are for finding it.
CREATE TABLE rules (
    row        INTEGER PRIMARY KEY,
    key        INTEGER NOT NULL,
    action     INTEGER NOT NULL,
    subject    TEXT,
    tenant     TEXT,
    agent      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    everywhere INTEGER NOT NULL,
    role       TEXT,
    made_by    TEXT,
    body       ANY NOT NULL,
    made_at    INTEGER NOT NULL,
    until      INTEGER,
    revoked_at INTEGER,
    UNIQUE (key, action)
) STRICT;
CREATE INDEX rules_standing ON rules (subject, tool, agent) WHERE everywhere AND revoked_at IS NULL;
CREATE INDEX rules_made ON rules (made_at);

ALTER TABLE interruptions ADD COLUMN remind_at INTEGER;
CREATE INDEX interruptions_remind ON interruptions (remind_at) WHERE resolution IS NULL AND remind_at IS NOT NULL;
