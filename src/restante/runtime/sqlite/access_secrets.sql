-- Access secrets of contacts inboxes: those of contacts, and which of them have ours (SPEC 7.2, 8.8).

-- name: all
-- What is known of every peer.
SELECT peer, sealed_secret, stated_at_ms, is_used, told_at_ms, use FROM contact_access;

-- name: keep
-- Store a contact's secret; it is not used yet.
INSERT INTO contact_access (peer, sealed_secret, stated_at_ms) VALUES (?1, ?2, ?3)
ON CONFLICT (peer) DO UPDATE SET sealed_secret = ?2, stated_at_ms = ?3, is_used = 0;

-- name: state_again
-- The contact stated the same secret again.
UPDATE contact_access SET stated_at_ms = ?2 WHERE peer = ?1;

-- name: use
-- From now on mail to this contact goes to its contacts inbox.
UPDATE contact_access SET is_used = 1 WHERE peer = ?;

-- name: readable_peers
-- Peers of whom we have read a message.
SELECT DISTINCT peer FROM session WHERE is_initiator = 0 OR opening IS NULL ORDER BY peer;

-- name: told
-- This peer was told our secret.
INSERT INTO contact_access (peer, told_at_ms) VALUES (?1, ?2)
ON CONFLICT (peer) DO UPDATE SET told_at_ms = ?2, use = 'unknown';

-- name: set_use
-- Which inbox of ours this peer uses, as far as its mail shows.
UPDATE contact_access SET use = ?2 WHERE peer = ?1;

-- name: forget
-- Everything about a peer that is no contact any more.
DELETE FROM contact_access WHERE peer = ?;

-- name: tell_all_again
-- No peer has our secret: it is new.
UPDATE contact_access SET told_at_ms = NULL, use = 'unknown';
