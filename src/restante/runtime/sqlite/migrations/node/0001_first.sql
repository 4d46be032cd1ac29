-- A node's file: the blobs it holds for others, and its journal.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms        INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    message_id   BLOB,
    session_tag  BLOB,
    sequence     INTEGER,
    payload_hash BLOB,
    size_bytes   INTEGER,
    message_kind TEXT,
    priority     INTEGER,
    attempt      INTEGER,
    code         TEXT,
    node         BLOB,
    latency_ms   INTEGER,
    ttl_s        INTEGER
) STRICT;

-- SPEC 6.2. `recipient` is an inbox key: the node learns an address only when its owner reads.
CREATE TABLE inbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient    BLOB NOT NULL CHECK (length(recipient) = 32),
    envelope     BLOB NOT NULL,
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    stored_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX inbox_by_recipient ON inbox (recipient, id);
CREATE INDEX inbox_by_expiry ON inbox (expires_at_ms);
