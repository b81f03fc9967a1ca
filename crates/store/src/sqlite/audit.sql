-- What people were asked and decided, chained by hashes. Unlike the other tables it is not read from the journal
-- again: it stays when a session is deleted, and nothing in it is ever changed.
CREATE TABLE audit (
    n    INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    body TEXT NOT NULL
) STRICT;
