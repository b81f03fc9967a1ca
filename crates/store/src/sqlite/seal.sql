-- What a sealed store is sealed with; both tables are empty in a plain one. `name` is the store's own random name, to
-- which every sealed value is bound. `mixed` is there while plain values are being sealed, or sealed ones opened.
CREATE TABLE seal (one INTEGER PRIMARY KEY CHECK (one = 1), name BLOB NOT NULL, mixed BLOB) STRICT;
-- The keys of its values; `proof` is a value that only the right key opens.
CREATE TABLE seal_keys (id TEXT PRIMARY KEY, proof BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- A sealed value is a BLOB, a plain one TEXT. The columns held only TEXT; to allow both changes no row, so that the
-- tables are not written anew (https://www.sqlite.org/lang_altertable.html, the last of its procedures). The tables
-- above make every other connection read the schema again.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'body TEXT NOT NULL', 'body ANY NOT NULL')
    WHERE type = 'table' AND name IN ('entries', 'snapshots', 'audit');
UPDATE sqlite_schema SET sql = replace(sql, 'title      TEXT', 'title      ANY')
    WHERE type = 'table' AND name = 'sessions';
PRAGMA writable_schema = RESET;
