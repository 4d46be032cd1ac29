-- The relay's inbox store (SPEC 6).

-- name: put_blob
INSERT INTO inbox (recipient, envelope, payload_hash, stored_at_ms, expires_at_ms)
VALUES (:recipient, :envelope, :payload_hash, :stored_at_ms, :expires_at_ms);

-- name: usage
SELECT count(*), coalesce(sum(length(envelope)), 0) FROM inbox WHERE recipient = :recipient;

-- name: flush_page
-- An expired blob is never served, swept or not (SPEC 6.3).
SELECT id, stored_at_ms, envelope
  FROM inbox
 WHERE recipient = :recipient AND id > :after AND expires_at_ms > :now_ms
 ORDER BY id
 LIMIT :limit;

-- name: delete_blob
-- By id and recipient: nobody deletes from another's inbox (SPEC 6.1).
DELETE FROM inbox WHERE id = :id AND recipient = :recipient RETURNING payload_hash;

-- name: reap
DELETE FROM inbox WHERE expires_at_ms <= :now_ms RETURNING payload_hash;

-- name: reap_listed
-- A list is worked off hash by hash, and rarely: no index is kept for it.
DELETE FROM inbox WHERE payload_hash = :payload_hash RETURNING payload_hash;
