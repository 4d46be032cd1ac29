-- The journal and the small values beside it; the same in a client's and a node's file. Statements that name the
-- journal's columns are made from wire/journal_schema.

-- name: last_number
-- The number of the newest journal event, for the next one to follow; 0 in a new file.
SELECT coalesce(max(number), 0) FROM journal;

-- name: get_meta
-- A value that lives as long as the file.
SELECT value FROM meta WHERE key = :key;

-- name: set_meta
-- Write such a value, or replace it.
INSERT INTO meta (key, value) VALUES (:key, :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: first_number
-- The number of the oldest journal event that is still there; 0 in a new file.
SELECT coalesce(min(number), 0) FROM journal;

-- name: older_than
-- The newest of the oldest events: all numbers up to it are of events before a time. NULL if the oldest is younger.
SELECT max(number)
  FROM journal
 WHERE at_ms < :before_ms
   AND number < coalesce((SELECT min(number) FROM journal WHERE at_ms >= :before_ms), 9223372036854775807);

-- name: prune
-- Delete old events that were shipped, or all old ones where shipping is off.
DELETE FROM journal WHERE number <= :through;
