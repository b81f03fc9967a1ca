-- The id of what follows in the store, until it is restored from a backup. Made wherever it is missing.
CREATE TABLE IF NOT EXISTS history (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL) STRICT;
INSERT OR IGNORE INTO history VALUES (1, lower(hex(randomblob(16))));
