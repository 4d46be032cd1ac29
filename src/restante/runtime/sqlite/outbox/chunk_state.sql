-- How far the sending of a chunk to its chat platform has come (SPEC 12.6).

-- name: load
-- How far one chunk has come.
SELECT is_open, crashes, lost_answers, as_plain, part_limit, part_offset FROM channel_progress WHERE message_id = ?;

-- name: store
-- Write how far a chunk has come.
INSERT INTO channel_progress (message_id, is_open, crashes, lost_answers, as_plain, part_limit, part_offset)
VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (message_id) DO UPDATE
   SET is_open = excluded.is_open, crashes = excluded.crashes, lost_answers = excluded.lost_answers,
       as_plain = excluded.as_plain, part_limit = excluded.part_limit, part_offset = excluded.part_offset;

-- name: remove
-- The chunk has ended.
DELETE FROM channel_progress WHERE message_id = ?;
