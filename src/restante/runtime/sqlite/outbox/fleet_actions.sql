-- The scoreboard of nodes; the same in a client's and a node's file.

-- name: get_meta
-- The scoreboard that was last applied.
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
-- Replace it.
INSERT INTO meta (key, value) VALUES (:key, :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
