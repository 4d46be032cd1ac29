-- The journal and the small values beside it; the same in a client's and a node's file.

-- name: append_fact
-- Every column in its order: a statement is looked up by its text for each row.
INSERT INTO journal VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: append_step_fact
-- What a step of an outbox entry states; what sealed bytes and sessions have is NULL.
INSERT INTO journal VALUES (?,?,?,?,NULL,NULL,NULL,NULL,?,?,?,?,?,?,NULL);

-- name: append_blob_fact
-- What is not named is NULL: eight values fewer to bind for every blob.
INSERT INTO journal (number, at_ms, kind, session_tag, payload_hash, size_bytes, ttl_s) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: append_arrived_fact
INSERT INTO journal (number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
                     code, ttl_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: append_released_fact
INSERT INTO journal (number, at_ms, kind, message_id, session_tag, sequence, message_kind, code, latency_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: last_number
SELECT coalesce((SELECT number FROM fact ORDER BY number DESC LIMIT 1), 0);

-- name: facts_after
SELECT number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
       priority, attempt, code, node, latency_ms, ttl_s
  FROM fact
 WHERE number > :after
 ORDER BY number
 LIMIT :limit;

-- name: facts_about
SELECT number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind,
       priority, attempt, code, node, latency_ms, ttl_s
  FROM fact
 WHERE message_id = :message_id
 ORDER BY number;

-- name: get_meta
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: facts_of_kind
-- The newest of one kind. Reads the whole journal: no index is kept for this.
SELECT number, at_ms, kind, message_id, session_tag, sequence, payload_hash, size_bytes, message_kind, priority, attempt,
       code, node, latency_ms, ttl_s
  FROM fact WHERE kind = :kind ORDER BY number DESC LIMIT :limit;
