-- A put writes its blob and its fact, nothing else, at the ends of two tables. Where a blob is found by its recipient and
-- by its expiry (SPEC 6.2) is written later, many at a time: in the order of recipients nearly every put of a commit had a
-- page of its own to write.
CREATE TABLE filed (
    recipient     BLOB NOT NULL,
    id            INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    size_bytes    INTEGER NOT NULL,
    PRIMARY KEY (recipient, id)
) STRICT, WITHOUT ROWID;
INSERT INTO filed (recipient, id, expires_at_ms, size_bytes)
SELECT recipient, id, expires_at_ms, length(envelope) FROM inbox ORDER BY recipient, id;
CREATE INDEX filed_by_expiry ON filed (expires_at_ms);
DROP INDEX inbox_by_recipient;
DROP INDEX inbox_by_expiry;
CREATE TRIGGER inbox_gone AFTER DELETE ON inbox
BEGIN
    DELETE FROM filed WHERE recipient = old.recipient AND id = old.id;
END;

-- Blobs up to this id are filed, and counted in `usage`.
CREATE TABLE filing (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    through INTEGER NOT NULL
) STRICT;
INSERT INTO filing (only, through) SELECT 1, coalesce(max(id), 0) FROM inbox;
