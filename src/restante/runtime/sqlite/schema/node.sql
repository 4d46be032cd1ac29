-- A node's file: the blobs it stores for recipients, and its journal.

-- Small values that live as long as the file.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Journal events in the order in which they became true, numbered without gaps. Columns: wire/journal_schema.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY,
    {journal_columns}
) STRICT;

-- SPEC 6.2. `recipient` is an inbox key. `id` is the number of the journal event that tells of the blob's storing.
CREATE TABLE blob (
    id            INTEGER PRIMARY KEY,
    recipient     BLOB NOT NULL CHECK (length(recipient) = 32),
    envelope      BLOB NOT NULL,
    payload_hash  BLOB NOT NULL CHECK (length(payload_hash) = 32),
    stored_at_ms  INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;

-- What each mailbox holds (SPEC 6.6), as far as its blobs are indexed. An empty mailbox has no row.
CREATE TABLE usage (
    recipient BLOB PRIMARY KEY,
    blobs     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Blobs by recipient and by expiry. A put does not write here: rows are added in bulk, because in the order of
-- recipients nearly every put of a commit would write a page of its own.
CREATE TABLE blob_index (
    recipient     BLOB NOT NULL,
    id            INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    size_bytes    INTEGER NOT NULL,
    PRIMARY KEY (recipient, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_index_by_expiry ON blob_index (expires_at_ms);
CREATE TRIGGER blob_deleted AFTER DELETE ON blob
BEGIN
    DELETE FROM blob_index WHERE recipient = old.recipient AND id = old.id;
END;

-- Blobs up to this id are indexed, and counted in `usage`.
CREATE TABLE blob_index_state (
    only    INTEGER PRIMARY KEY CHECK (only = 1),
    through INTEGER NOT NULL
) STRICT;
INSERT INTO blob_index_state VALUES (1, 0);

-- Mail of the mesh (SPEC 7). What a node knows of each inbox key: blobs, their bytes, hashes of deleted ones, and the XOR
-- of all these hashes, which neighbours compare (7.9).
CREATE TABLE mesh_key (
    inbox_key BLOB PRIMARY KEY CHECK (length(inbox_key) = 32),
    blinded   BLOB NOT NULL CHECK (length(blinded) = 32),
    bucket    INTEGER NOT NULL,
    blobs     INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    deleted   INTEGER NOT NULL,
    xor       BLOB NOT NULL CHECK (length(xor) = 32)
) STRICT, WITHOUT ROWID;
CREATE INDEX mesh_key_by_bucket ON mesh_key (bucket);

-- `id` is the number of the journal event that tells of the blob's storing. One row for a key and hash: the store checks.
CREATE TABLE mesh_blob (
    id            INTEGER PRIMARY KEY,
    inbox_key     BLOB NOT NULL,
    payload_hash  BLOB NOT NULL CHECK (length(payload_hash) = 32),
    expires_at_ms INTEGER NOT NULL,
    envelope      BLOB NOT NULL
) STRICT;
CREATE INDEX mesh_blob_by_key ON mesh_blob (inbox_key, payload_hash, expires_at_ms);
CREATE INDEX mesh_blob_by_expiry ON mesh_blob (expires_at_ms);

-- Hashes of blobs that their owners deleted (SPEC 7.4).
CREATE TABLE mesh_tombstone (
    inbox_key    BLOB NOT NULL,
    payload_hash BLOB NOT NULL,
    PRIMARY KEY (inbox_key, payload_hash)
) STRICT, WITHOUT ROWID;

-- Prekey records by record key (SPEC 7.6).
CREATE TABLE mesh_record (
    record_key    BLOB PRIMARY KEY CHECK (length(record_key) = 32),
    expires_at_ms INTEGER NOT NULL,
    record_hash   BLOB NOT NULL,
    record        BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Peers that answered, for the next start: descriptors as they were signed.
CREATE TABLE mesh_peer (
    node_id    BLOB PRIMARY KEY,
    seen_at_ms INTEGER NOT NULL,
    descriptor BLOB NOT NULL
) STRICT, WITHOUT ROWID;
