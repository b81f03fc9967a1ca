-- Where deliveries of the audit log stand: see `deliveries.rs`. Made wherever they are missing.
CREATE TABLE IF NOT EXISTS endpoints (
    name   TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL,
    gone   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed_deliveries (
    endpoint TEXT NOT NULL,
    n        INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at  INTEGER,
    tried_at INTEGER NOT NULL,
    why      TEXT NOT NULL,
    PRIMARY KEY (endpoint, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS failed_deliveries_due ON failed_deliveries (endpoint, next_at, n) WHERE next_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS failed_deliveries_dead ON failed_deliveries (endpoint, n) WHERE next_at IS NULL;
CREATE INDEX IF NOT EXISTS failed_deliveries_tried ON failed_deliveries (endpoint, tried_at, n);
