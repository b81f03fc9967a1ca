-- Where deliveries of the audit log stand: see `letters.rs`. Made wherever they are missing.
CREATE TABLE IF NOT EXISTS endpoints (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS letters (
    endpoint TEXT NOT NULL,
    n        INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at  INTEGER,
    tried_at INTEGER NOT NULL,
    why      TEXT NOT NULL,
    PRIMARY KEY (endpoint, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS letters_due ON letters (endpoint, next_at, n) WHERE next_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS letters_dead ON letters (endpoint, n) WHERE next_at IS NULL;
CREATE INDEX IF NOT EXISTS letters_tried ON letters (endpoint, tried_at, n);
