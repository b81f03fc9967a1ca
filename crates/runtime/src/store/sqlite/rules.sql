-- Standing rules ("always"), from the journal: what makes one and what ends it are records there. `key` is the number of
-- the interruption it was made in, as in `interruptions`; `action` is which of its actions.
CREATE TABLE rules (
    row        INTEGER PRIMARY KEY,
    key        INTEGER NOT NULL,
    action     INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    everywhere INTEGER NOT NULL,
    role       TEXT,
    made_by    TEXT,
    body       ANY NOT NULL,
    made_at    INTEGER NOT NULL,
    revoked_at INTEGER,
    revoked_by TEXT,
    UNIQUE (key, action)
) STRICT;
CREATE INDEX rules_standing ON rules (tool, agent) WHERE revoked_at IS NULL;

ALTER TABLE interruptions ADD COLUMN remind_at INTEGER;
CREATE INDEX interruptions_remind ON interruptions (remind_at) WHERE resolution IS NULL AND remind_at IS NOT NULL;
