-- The writer numbers its facts itself and never deletes the newest, so SQLite need not remember the last number: that
-- was one more row to write for each fact and one more page in each commit.
CREATE TABLE numbered (
    number       INTEGER PRIMARY KEY,
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
INSERT INTO numbered (number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
                      priority, attempt, code, node, latency_ms, ttl_s)
SELECT number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
       priority, attempt, code, node, latency_ms, ttl_s
  FROM journal
 ORDER BY number;
DROP TABLE journal;
ALTER TABLE numbered RENAME TO journal;
