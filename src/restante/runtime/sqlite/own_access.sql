-- Our own access secrets: the one in use, and those that are still read (SPEC 8.8).

-- name: all
-- Every secret, the oldest first.
SELECT number, sealed_secret, since_ms, retired_at_ms FROM own_access ORDER BY number;

-- name: add
-- A secret that is in use from now on.
INSERT INTO own_access (number, sealed_secret, since_ms) VALUES (?, ?, ?);

-- name: retire
-- The secret in use is one that is only read from now on.
UPDATE own_access SET retired_at_ms = ? WHERE retired_at_ms IS NULL;

-- name: forget
-- A secret that is no longer read.
DELETE FROM own_access WHERE number = ?;

-- name: forget_buckets
-- How far its inbox was read in the mesh.
DELETE FROM mesh_bucket WHERE inbox = ?;
