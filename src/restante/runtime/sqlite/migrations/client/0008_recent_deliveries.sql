-- What was delivered last, in the order of delivery. Ids are random: put in order one by one, each would write a page of
-- its own, so that they go to the sent-index many at a time. Both together are `delivered`.
CREATE TABLE sent_recent (
    place        INTEGER PRIMARY KEY,
    message_id   BLOB NOT NULL CHECK (length(message_id) = 16),
    kind         TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    confirmation INTEGER NOT NULL,
    ended_at_ms  INTEGER NOT NULL
) STRICT;

CREATE VIEW delivered AS
SELECT message_id, kind, priority, confirmation, ended_at_ms FROM sent_index
 UNION ALL
SELECT message_id, kind, priority, confirmation, ended_at_ms FROM sent_recent;
