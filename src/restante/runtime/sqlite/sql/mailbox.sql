-- The relay's inbox store (SPEC 6).

-- name: put_blob
-- In the order of `core.mailbox.Keep`, between the id and the moment.
INSERT INTO inbox (id, recipient, payload_hash, expires_at_ms, envelope, stored_at_ms) VALUES (?, ?, ?, ?, ?, ?);

-- name: usage
SELECT blobs, bytes FROM usage WHERE recipient = ?;

-- name: set_usage
INSERT INTO usage (recipient, blobs, bytes) VALUES (?, ?, ?)
    ON CONFLICT (recipient) DO UPDATE SET blobs = excluded.blobs, bytes = excluded.bytes;

-- name: forget_usage
DELETE FROM usage WHERE recipient = ?;

-- name: page_sizes
-- How far a page may reach. An expired blob is never served, swept or not (SPEC 6.3).
SELECT id, length(envelope)
  FROM inbox
 WHERE recipient = :recipient AND id > :after AND expires_at_ms > :now_ms
 ORDER BY id
 LIMIT :limit;

-- name: flush_page
SELECT id, stored_at_ms, envelope
  FROM inbox
 WHERE recipient = :recipient AND id > :after AND id <= :through AND expires_at_ms > :now_ms
 ORDER BY id;

-- name: delete_blob
-- By id and recipient: nobody deletes from another's inbox (SPEC 6.1).
DELETE FROM inbox WHERE id = ? AND recipient = ? RETURNING recipient, payload_hash, length(envelope);

-- name: reap
DELETE FROM inbox
 WHERE id IN (SELECT id FROM inbox WHERE expires_at_ms <= :now_ms LIMIT :limit)
RETURNING recipient, payload_hash, length(envelope);

-- name: reap_inbox
DELETE FROM inbox
 WHERE recipient = :recipient AND expires_at_ms <= :now_ms
RETURNING recipient, payload_hash, length(envelope);

-- name: earliest_expiry
SELECT min(expires_at_ms) FROM inbox WHERE recipient = ?;

-- name: reap_listed
-- A list is worked off hash by hash, and rarely: no index is kept for it.
DELETE FROM inbox WHERE payload_hash = :payload_hash RETURNING recipient, payload_hash, length(envelope);
