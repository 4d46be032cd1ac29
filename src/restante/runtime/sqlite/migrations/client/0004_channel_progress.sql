-- SPEC 12.6: how far the sending of a chunk has come. A row is written before the platform is called and goes with the
-- message's payload. `is_open` left behind by a dead process means that the platform may have taken the message.
CREATE TABLE channel_progress (
    message_id   BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    is_open      INTEGER NOT NULL,
    crashes      INTEGER NOT NULL,
    lost_answers INTEGER NOT NULL,
    as_plain     INTEGER NOT NULL,
    part_limit   INTEGER,
    part_offset  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
