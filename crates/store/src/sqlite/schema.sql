-- The journal is `entries`; every other table is derived from it and only saves reading it.
-- A session is named by a small number inside the file. The key of an entry or interruption is that
-- number and its own in one integer (number << 32 | position), so that a session's rows lie together.

CREATE TABLE sessions (
    row        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    pos        INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    subject    TEXT,
    title      TEXT,
    status     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    pending    TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_used ON sessions (updated_at);
CREATE INDEX sessions_subject ON sessions (subject) WHERE subject IS NOT NULL;
CREATE INDEX sessions_running ON sessions (row) WHERE status = 'running';

CREATE TABLE entries (key INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE VIEW journal AS
    SELECT s.id AS session_id, e.key & 4294967295 AS pos, e.body
    FROM entries e JOIN sessions s ON s.row = e.key >> 32;

CREATE TABLE snapshots (session INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;

-- `queued`: the message waits for its place, and will bring the id once more.
CREATE TABLE requests (
    session INTEGER NOT NULL, id TEXT NOT NULL, queued INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE reviewers (
    session INTEGER NOT NULL, role TEXT NOT NULL,
    PRIMARY KEY (session, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE interruptions (
    key          INTEGER PRIMARY KEY,
    role         TEXT,
    agent        TEXT NOT NULL,
    tools        TEXT NOT NULL,
    asked_at     INTEGER NOT NULL,
    expires_at   INTEGER,
    asked_pos    INTEGER NOT NULL,
    resolution   TEXT,
    resolved_at  INTEGER,
    resolved_pos INTEGER
) STRICT;
CREATE INDEX interruptions_asked ON interruptions (asked_at);
CREATE INDEX interruptions_waiting ON interruptions (asked_at) WHERE resolution IS NULL;
CREATE INDEX interruptions_role ON interruptions (role, asked_at) WHERE resolution IS NULL AND role IS NOT NULL;
CREATE INDEX interruptions_due ON interruptions (expires_at) WHERE resolution IS NULL AND expires_at IS NOT NULL;

-- Written by the readiness check.
CREATE TABLE probe (one INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

PRAGMA application_id = 1129531214; -- 'CSGN'
