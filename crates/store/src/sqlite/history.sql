-- The id of the store's events; `store restored` renews it. Files from before it get one when they are opened.
CREATE TABLE IF NOT EXISTS history (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL) STRICT;
INSERT OR IGNORE INTO history VALUES (1, lower(hex(randomblob(16))));
