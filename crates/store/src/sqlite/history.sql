-- The id of the store's events; `store restored` renews it. Files from before it get one when they are opened.
CREATE TABLE IF NOT EXISTS event_history (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), id TEXT NOT NULL) STRICT;
INSERT OR IGNORE INTO event_history VALUES (1, lower(hex(randomblob(16))));
