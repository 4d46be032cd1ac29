-- An acknowledgement counts only from whom the message was written to, which is asked for every one that comes. The rows
-- of a delivered message stay as long as the message is remembered: a READ may come late.
CREATE INDEX sealed_for_message ON sealed_for (message_id);
