-- The dedup cache (SPEC 9.2). `turn` grows with every arrival, so its order is that of recency.

-- name: find_many
SELECT bucket, turn, mark, is_acknowledged, seen_at_ms FROM dedup WHERE bucket IN (SELECT value FROM json_each(?));

-- name: remember
INSERT INTO dedup (bucket, turn, mark, is_acknowledged, seen_at_ms) VALUES (?, ?, ?, ?, ?);

-- name: touch
UPDATE dedup SET turn = ?, seen_at_ms = ? WHERE turn = ?;

-- name: forget_oldest
DELETE FROM dedup WHERE turn IN (SELECT turn FROM dedup ORDER BY turn LIMIT ?) RETURNING seen_at_ms;

-- name: oldest
SELECT seen_at_ms FROM dedup ORDER BY turn LIMIT ?;
