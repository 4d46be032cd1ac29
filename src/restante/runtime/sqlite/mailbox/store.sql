-- The mailboxes of a node (SPEC 6). Statements that delete by recipient or expiry find only indexed blobs.

-- name: put_blob
-- Store one blob. The columns follow the order of `core.mailbox.Keep`, after the id.
INSERT INTO blob (id, recipient, payload_hash, expires_at_ms, envelope, stored_at_ms) VALUES (?, ?, ?, ?, ?, ?);

-- name: usage
-- Indexed blobs of a mailbox and their bytes, for its quota.
SELECT blobs, bytes FROM usage WHERE recipient = ?;

-- name: usage_now
-- Blobs of a mailbox and their bytes, with those that are not indexed yet.
SELECT coalesce(sum(blobs), 0), coalesce(sum(bytes), 0)
  FROM (SELECT blobs, bytes FROM usage WHERE recipient = :recipient
        UNION ALL
        SELECT 1, length(envelope)
          FROM blob WHERE id > (SELECT through FROM blob_index_state) AND recipient = :recipient);

-- name: total_bytes
-- Bytes of all blobs, for the total of SPEC 6.6.
SELECT (SELECT coalesce(sum(bytes), 0) FROM usage)
     + (SELECT coalesce(sum(length(envelope)), 0) FROM blob WHERE id > (SELECT through FROM blob_index_state));

-- name: sizes
-- Ids and sizes of the indexed blobs of a mailbox, to count the share of each source.
SELECT id, size_bytes FROM blob_index WHERE recipient = ?;

-- name: set_usage
-- Write what a mailbox holds.
INSERT INTO usage (recipient, blobs, bytes) VALUES (?, ?, ?)
    ON CONFLICT (recipient) DO UPDATE SET blobs = excluded.blobs, bytes = excluded.bytes;

-- name: forget_usage
-- Delete the counts of a mailbox that is empty.
DELETE FROM usage WHERE recipient = ?;

-- name: read_blobs
-- The blobs of a page; their ids are given as a JSON array.
SELECT id, stored_at_ms, envelope, payload_hash FROM blob WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id;

-- name: delete_blobs
-- Delete the blobs in a JSON array, by id and recipient, so that no client deletes from another mailbox (SPEC 6.1).
DELETE FROM blob
 WHERE id IN (SELECT value FROM json_each(?)) AND recipient = ?
RETURNING id, recipient, payload_hash, length(envelope);

-- name: reap
-- Delete expired blobs of all mailboxes (SPEC 6.1).
DELETE FROM blob
 WHERE id IN (SELECT id FROM blob_index WHERE expires_at_ms <= :now_ms LIMIT :limit)
RETURNING id, recipient, payload_hash, length(envelope);

-- name: reap_inbox
-- Delete expired blobs of one mailbox that is full.
DELETE FROM blob
 WHERE id IN (SELECT id FROM blob_index WHERE recipient = :recipient AND expires_at_ms <= :now_ms)
RETURNING id, recipient, payload_hash, length(envelope);

-- name: earliest_expiry
-- When the next blob of a mailbox expires.
SELECT min(expires_at_ms) FROM blob_index WHERE recipient = ?;

-- name: last_event_at
-- When the journal was last written: a start compares its clock with it.
SELECT at_ms FROM journal ORDER BY number DESC LIMIT 1;

-- name: reap_not_before
-- The delay of reaping that an earlier start set.
SELECT value FROM meta WHERE key = 'reap_not_before_ms';

-- name: keep_reap_not_before
-- Set the delay of reaping.
INSERT INTO meta (key, value) VALUES ('reap_not_before_ms', :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
