-- The scoreboard that was last taken; the same in a client's and a node's file.

-- name: get_meta
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
