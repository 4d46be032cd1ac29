-- A blob's id is the number of the fact that tells of its storing: never given twice, and no counter of its own to write.
-- Numbers of facts are at least as high as the ids so far, since each blob has its fact.
CREATE TABLE held (
    id           INTEGER PRIMARY KEY,
    recipient    BLOB NOT NULL CHECK (length(recipient) = 32),
    envelope     BLOB NOT NULL,
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    stored_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO held (id, recipient, envelope, payload_hash, stored_at_ms, expires_at_ms)
SELECT id, recipient, envelope, payload_hash, stored_at_ms, expires_at_ms FROM inbox ORDER BY id;
DROP TABLE inbox;
ALTER TABLE held RENAME TO inbox;
CREATE INDEX inbox_by_recipient ON inbox (recipient, id);
CREATE INDEX inbox_by_expiry ON inbox (expires_at_ms);

-- What each inbox holds (SPEC 6.6), kept so that a put need not count it. An empty inbox has no row.
CREATE TABLE usage (
    recipient BLOB PRIMARY KEY,
    blobs     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO usage (recipient, blobs, bytes)
SELECT recipient, count(*), sum(length(envelope)) FROM inbox GROUP BY recipient;
