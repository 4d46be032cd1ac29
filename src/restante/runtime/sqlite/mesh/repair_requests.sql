-- What the fleet asks a storage node to fetch again (SPEC 13.6).

-- name: known
-- Which of these hashes, a JSON array of hex texts, the node holds or knows as deleted by their owner. Indexes have both.
SELECT payload_hash FROM mesh_blob WHERE payload_hash IN (SELECT unhex(value) FROM json_each(:hashes))
 UNION
SELECT payload_hash FROM mesh_tombstone WHERE payload_hash IN (SELECT unhex(value) FROM json_each(:hashes));

-- name: requested
-- The time of the newest report whose proposals were applied.
SELECT value FROM meta WHERE key = 'repair_requested';

-- name: request
-- That of a newer one: a running node sees that it has changed.
INSERT INTO meta (key, value) VALUES ('repair_requested', :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
