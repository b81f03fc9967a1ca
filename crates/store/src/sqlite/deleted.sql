-- The ids of deleted sessions. No session ever has one of them again: what names it (an approval, a request) would count
-- for another session.
CREATE TABLE deleted (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
