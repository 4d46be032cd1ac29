-- The dedup cache (SPEC 9.2). `turn` grows with every arrival, so its order is that of recency.

-- name: find_many
-- The fingerprints in these buckets.
SELECT bucket, turn, mark, is_acknowledged, seen_at_ms, acked_again_at_ms FROM dedup WHERE bucket IN (SELECT value FROM json_each(?));

-- name: remember
-- The fingerprint of a new arrival.
INSERT INTO dedup (bucket, turn, mark, is_acknowledged, seen_at_ms) VALUES (?, ?, ?, ?, ?);

-- name: touch
-- The arrival was seen again.
UPDATE dedup SET turn = ?, seen_at_ms = ? WHERE turn = ?;

-- name: forget_oldest
-- Delete the least recently seen fingerprints, and return when each was seen.
DELETE FROM dedup WHERE turn IN (SELECT turn FROM dedup ORDER BY turn LIMIT ?) RETURNING seen_at_ms;

-- name: acked_again
-- A duplicate of the arrival is acknowledged again.
UPDATE dedup SET acked_again_at_ms = ? WHERE turn = ?;

-- name: oldest
-- When the least recently seen arrivals were seen.
SELECT seen_at_ms FROM dedup ORDER BY turn LIMIT ?;
