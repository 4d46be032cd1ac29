-- Access secrets of contacts inboxes (SPEC 7.2, 8.8).

-- name: all
-- Every secret that a contact gave us, and whether mail to that contact uses it.
SELECT peer, sealed_secret, is_used FROM contact_access WHERE sealed_secret IS NOT NULL;

-- name: keep
-- Store a contact's secret; it is not used yet.
INSERT INTO contact_access (peer, sealed_secret, is_told) VALUES (?, ?, 0)
ON CONFLICT (peer) DO UPDATE SET sealed_secret = excluded.sealed_secret, is_used = 0;

-- name: use
-- From now on mail to this contact goes to its contacts inbox.
UPDATE contact_access SET is_used = 1 WHERE peer = ?;

-- name: untold
-- Peers of whom we have read a message, and who lack our secret.
SELECT DISTINCT peer FROM session
 WHERE (is_initiator = 0 OR opening IS NULL)
   AND peer NOT IN (SELECT peer FROM contact_access WHERE is_told = 1)
 ORDER BY peer;

-- name: told
-- Remember that this peer has our secret.
INSERT INTO contact_access (peer, sealed_secret, is_told) VALUES (?, NULL, 1)
ON CONFLICT (peer) DO UPDATE SET is_told = 1;
