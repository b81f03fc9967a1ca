-- How sessions stood on their way: a cache, from which the past is folded. The key is that of the last entry folded in it,
-- the version that of the folding.
CREATE TABLE waypoints (key INTEGER PRIMARY KEY, version INTEGER NOT NULL, body ANY NOT NULL) STRICT;
-- Numbers of sessions whose entries are being copied, and of those where that was given up: what is in `entries` under
-- them is of no session, and goes away.
CREATE TABLE unfinished (session INTEGER PRIMARY KEY) STRICT;
-- The last number that was given to a session or a copy. None is given twice: what is still to be done about one that is
-- gone must never meet another.
CREATE TABLE numbers (one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL) STRICT;
INSERT INTO numbers SELECT 1, coalesce(max(row), 0) FROM sessions;
