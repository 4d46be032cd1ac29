-- A client's file: outbox, inbox, sessions, and the journal of all three.

-- Small values that live as long as the file.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Journal events in the order in which they became true, numbered without gaps. Columns: wire/journal_schema.
CREATE TABLE journal (
    number INTEGER PRIMARY KEY,
    {journal_columns}
) STRICT;

-- Bodies are written once and read once. What changes while a message is in flight is kept apart, in narrow rows.
-- `payload` is empty until the first lease encrypts the message.
CREATE TABLE message_body (
    body_id          INTEGER PRIMARY KEY,
    payload          BLOB NOT NULL,
    sealed_plaintext BLOB NOT NULL
) STRICT;

-- One recipient, server or chat (SPEC 3.4), with what it holds (SPEC 3.6) and the entry that leaves it next.
-- `entries` and `bytes` count the outbox and dead letters with a payload, `dead` the retriable dead letters.
-- `first_place` is the place of the oldest unsent entry. `due_at_ms` is NULL while nothing may be leased; otherwise
-- the columns `next_…` are those of the entry that leaves next. `connected_ms` grows while
-- the lane is connected and entries wait (SPEC 2.2); `checked_at_ms` is when that was last looked at.
-- No entry of the lane waits longer than `waits_until_ms`.
CREATE TABLE lane (
    lane_id       INTEGER PRIMARY KEY,
    route         TEXT NOT NULL,
    name          TEXT NOT NULL,
    relay         TEXT,
    next_place    INTEGER NOT NULL,
    entries       INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    dead          INTEGER NOT NULL,
    connected_ms  INTEGER NOT NULL,
    checked_at_ms INTEGER NOT NULL,
    waits_until_ms INTEGER NOT NULL,
    first_place   INTEGER,
    due_at_ms     INTEGER,
    next_priority INTEGER,
    next_created_at_ms INTEGER,
    next_queue_number INTEGER,
    UNIQUE (route, name)
) STRICT;

-- SPEC 3.1. `queue_number` is the number of the journal event that queued the entry, `place` counts the entries of its
-- lane. `queued_connected_ms` is the lane's `connected_ms` at that moment. No sweep need look at an entry before
-- `next_deadline_ms`, unless its lease expires. What time changes is found by reading all rows, 10,500 at most: that takes
-- 2 ms about once a minute, and an index would cost each commit of each message a page.
CREATE TABLE outbox (
    queue_number          INTEGER PRIMARY KEY,
    message_id            BLOB NOT NULL UNIQUE CHECK (length(message_id) = 16),
    lane_id               INTEGER NOT NULL,
    place                 INTEGER NOT NULL,
    body_id               INTEGER NOT NULL,
    size_bytes            INTEGER NOT NULL,
    kind                  TEXT NOT NULL,
    priority              INTEGER NOT NULL,
    created_at_ms         INTEGER NOT NULL,
    ttl_s                 INTEGER NOT NULL,
    queued_at_ms          INTEGER NOT NULL,
    queued_connected_ms   INTEGER NOT NULL,
    expires_at_ms         INTEGER NOT NULL,
    next_deadline_ms      INTEGER NOT NULL,
    first_dead_at_ms      INTEGER,
    next_attempt_at_ms    INTEGER NOT NULL,
    attempts              INTEGER NOT NULL DEFAULT 0,
    failures              INTEGER NOT NULL DEFAULT 0,
    state                 TEXT NOT NULL DEFAULT 'pending' CHECK (state = 'pending' OR state = 'sending' OR state = 'sent'),
    lease_owner           TEXT,
    lease_until_ms        INTEGER,
    last_error            TEXT,
    first_attempt_at_ms   INTEGER,
    last_attempt_at_ms    INTEGER,
    times_stored          INTEGER NOT NULL DEFAULT 0,
    has_failed_to_encrypt INTEGER NOT NULL DEFAULT 0,
    confirmation          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX outbox_unsent ON outbox (lane_id, queue_number) WHERE times_stored = 0;

-- Entries with their lane's names, those of a damaged file whose lane is not there too. An entry is blocked while an
-- earlier one of its lane has to leave first.
CREATE VIEW entry AS
SELECT outbox.*, lane.route AS route, lane.name AS lane,
       state = 'pending' AND times_stored = 0 AND EXISTS (
           SELECT 1 FROM outbox AS earlier
            WHERE earlier.lane_id = outbox.lane_id AND earlier.times_stored = 0
              AND earlier.queue_number < outbox.queue_number
              AND (lane.route IN ('upstream', 'channel')
                   OR earlier.state = 'pending' AND earlier.next_attempt_at_ms > outbox.next_attempt_at_ms)
       ) AS is_blocked
  FROM outbox LEFT JOIN lane USING (lane_id);

-- SPEC 5.1. A tombstone has no body.
CREATE TABLE dead_letter (
    message_id            BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    lane_id               INTEGER NOT NULL,
    body_id               INTEGER,
    size_bytes            INTEGER NOT NULL,
    kind                  TEXT NOT NULL,
    priority              INTEGER NOT NULL,
    created_at_ms         INTEGER NOT NULL,
    queued_at_ms          INTEGER NOT NULL,
    ttl_s                 INTEGER NOT NULL,
    message_expires_at_ms INTEGER NOT NULL,
    last_error            TEXT,
    reason                TEXT NOT NULL,
    code                  TEXT,
    category              TEXT NOT NULL,
    state                 TEXT NOT NULL,
    total_attempts        INTEGER NOT NULL,
    first_attempt_at_ms   INTEGER,
    last_attempt_at_ms    INTEGER,
    first_dead_at_ms      INTEGER NOT NULL,
    confirmation          INTEGER NOT NULL,
    moved_at_ms           INTEGER NOT NULL,
    expires_at_ms         INTEGER NOT NULL,
    retry_at_ms           INTEGER
) STRICT;
CREATE INDEX dead_letter_expiry ON dead_letter (expires_at_ms);
CREATE INDEX dead_letter_retry ON dead_letter (retry_at_ms) WHERE retry_at_ms IS NOT NULL;
CREATE INDEX dead_letter_lane ON dead_letter (lane_id);

-- SPEC 3.13: the final state of every message for 30 days. No payload, no destination.
CREATE TABLE delivered_index (
    message_id   BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    kind         TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    state        TEXT NOT NULL,
    confirmation INTEGER NOT NULL,
    ended_at_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivered_index_age ON delivered_index (ended_at_ms);

-- How far the sending of a chunk to its chat platform has come (SPEC 12.6).
CREATE TABLE channel_progress (
    message_id   BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    is_open      INTEGER NOT NULL,
    crashes      INTEGER NOT NULL,
    lost_answers INTEGER NOT NULL,
    as_plain     INTEGER NOT NULL,
    part_limit   INTEGER,
    part_offset  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The id that a chat platform gave to a chunk it accepted, kept as long as the chunk's final state. A chunk that was cut
-- into parts has the id of its first part.
CREATE TABLE platform_message (
    message_id          BLOB PRIMARY KEY CHECK (length(message_id) = 16),
    platform_message_id TEXT NOT NULL,
    accepted_at_ms      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX platform_message_age ON platform_message (accepted_at_ms);

-- Counters of the inbox: arrivals, released messages, turns of the dedup index and its rows.
CREATE TABLE inbox_total (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    arrivals INTEGER NOT NULL,
    places   INTEGER NOT NULL,
    turns    INTEGER NOT NULL,
    seen     INTEGER NOT NULL
) STRICT;
INSERT INTO inbox_total VALUES (1, 0, 0, 0, 0);

-- SPEC 9.4: how far each incoming session was released.
CREATE TABLE inbox_session (
    session     INTEGER PRIMARY KEY,
    sender      BLOB NOT NULL CHECK (length(sender) = 32),
    session_id  BLOB NOT NULL CHECK (length(session_id) = 32),
    phase       TEXT NOT NULL CHECK (phase = 'flowing' OR phase = 'waiting'),
    expected    INTEGER NOT NULL,
    missing     BLOB NOT NULL,
    wake_at_ms  INTEGER,
    UNIQUE (sender, session_id)
) STRICT;
CREATE INDEX inbox_session_wake ON inbox_session (wake_at_ms) WHERE wake_at_ms IS NOT NULL;

-- SPEC 9.4: messages that wait for earlier ones of their session. A placeholder has no plaintext.
CREATE TABLE reorder_buffer (
    arrival             INTEGER PRIMARY KEY,
    session             INTEGER NOT NULL,
    sequence_number     INTEGER NOT NULL,
    message_id          BLOB NOT NULL,
    kind                TEXT NOT NULL,
    ttl_type            INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    created_at_ms       INTEGER NOT NULL,
    received_at_ms      INTEGER NOT NULL,
    server_timestamp_ms INTEGER NOT NULL,
    sealed_plaintext    BLOB,
    UNIQUE (session, sequence_number)
) STRICT;

-- SPEC 9.6: released messages, in the order in which the application gets them.
CREATE TABLE inbox_message (
    place               INTEGER PRIMARY KEY,
    arrival             INTEGER NOT NULL,
    session             INTEGER NOT NULL,
    sequence_number     INTEGER NOT NULL,
    message_id          BLOB NOT NULL,
    kind                TEXT NOT NULL,
    is_late             INTEGER NOT NULL,
    ttl_type            INTEGER NOT NULL,
    ttl_s               INTEGER NOT NULL,
    received_at_ms      INTEGER NOT NULL,
    server_timestamp_ms INTEGER NOT NULL,
    first_read_at_ms    INTEGER,
    acked_at_ms         INTEGER,
    expires_at_ms       INTEGER,
    sealed_plaintext    BLOB NOT NULL
) STRICT;
CREATE INDEX inbox_message_unacked ON inbox_message (place) WHERE acked_at_ms IS NULL;
CREATE INDEX inbox_message_expiry ON inbox_message (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- Acknowledgements still to be queued; deleted in the transaction that queues them. `since_ms` of one for a duplicate
-- is in the future: it leaves after a random delay (SPEC 10.3).
CREATE TABLE pending_ack (
    number     INTEGER PRIMARY KEY,
    type       INTEGER NOT NULL CHECK (type IN (2, 3)),
    sender     BLOB NOT NULL,
    message_id BLOB NOT NULL,
    since_ms   INTEGER NOT NULL
) STRICT;

-- SPEC 9.1, 9.2: fingerprints of arrivals. `turn` grows with every arrival, so its order is that of recency.
-- `acked_again_at_ms` is when a duplicate was last acknowledged; 0 for never.
CREATE TABLE dedup (
    turn            INTEGER PRIMARY KEY,
    bucket          INTEGER NOT NULL,
    mark            BLOB NOT NULL CHECK (length(mark) = 40),
    is_acknowledged INTEGER NOT NULL,
    seen_at_ms      INTEGER NOT NULL,
    acked_again_at_ms INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX dedup_bucket ON dedup (bucket);

-- SPEC 8: end-to-end sessions; the ratchet state is sealed at rest. `is_read`: a message of the peer was decrypted in it.
-- `is_confirmed`: each side has read the other. `retired_at_ms` is when another session took its place, or when it was
-- opened while another one stayed current. A deleted session has no keys; its row stays while messages name it.
CREATE TABLE session (
    session       INTEGER PRIMARY KEY,
    peer          BLOB NOT NULL CHECK (length(peer) = 32),
    session_id    BLOB NOT NULL CHECK (length(session_id) = 32),
    generation    INTEGER NOT NULL,
    is_initiator  INTEGER NOT NULL,
    is_read       INTEGER NOT NULL,
    is_confirmed  INTEGER NOT NULL,
    began_at_ms   INTEGER NOT NULL,
    retired_at_ms INTEGER,
    is_deleted    INTEGER NOT NULL DEFAULT 0,
    next_sequence INTEGER NOT NULL,
    opening       BLOB,
    sealed_state  BLOB NOT NULL,
    UNIQUE (peer, session_id)
) STRICT;
CREATE INDEX session_retired ON session (retired_at_ms) WHERE retired_at_ms IS NOT NULL;

-- SPEC 8.7: what core/peer_sessions remembers about a peer besides the sessions: unreadable messages, the two retry
-- intervals and what was used today. It outlives all sessions with the peer.
CREATE TABLE peer (
    peer                   BLOB PRIMARY KEY CHECK (length(peer) = 32),
    highest_generation     INTEGER NOT NULL,
    unread                 BLOB NOT NULL,
    question_allowed_at_ms INTEGER NOT NULL,
    question_delay_ms      INTEGER NOT NULL,
    question_generation    INTEGER NOT NULL,
    opening_allowed_at_ms  INTEGER NOT NULL,
    opening_delay_ms       INTEGER NOT NULL,
    opening_generation     INTEGER NOT NULL,
    day                    INTEGER NOT NULL,
    openings               INTEGER NOT NULL,
    reencrypted_bytes      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which message has which number of which session, and the hash of its sealed bytes there. `is_wanted`: 1 if the peer
-- could not read it, and it is to be encrypted again in the current session; 2 if it waits for the lease that does so.
CREATE TABLE session_message (
    session      INTEGER NOT NULL,
    sequence     INTEGER NOT NULL,
    message_id   BLOB NOT NULL,
    payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
    is_wanted    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_message_id ON session_message (message_id);
CREATE INDEX session_message_wanted ON session_message (is_wanted) WHERE is_wanted = 1;

-- SPEC 8.8: our newest prekey that a peer was told in the session, a hash of the places it was told, and the newest
-- bundle of the peer, which it told us or published in the mesh.
CREATE TABLE peer_prekeys (
    peer           BLOB PRIMARY KEY CHECK (length(peer) = 32),
    told_prekey_id INTEGER NOT NULL,
    told_places    BLOB,
    bundle         BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE own_prekeys (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    sealed BLOB NOT NULL
) STRICT;

-- SPEC 8.8: access secrets of contacts inboxes. Which peers gave us theirs (sealed), when they stated it, and whether our
-- mail goes to their contacts inbox yet. When a peer was told our secret last, whether it used it since (`confirmed`), or
-- wrote to another inbox of ours after it had (`outdated`).
CREATE TABLE contact_access (
    peer          BLOB PRIMARY KEY CHECK (length(peer) = 32),
    sealed_secret BLOB,
    stated_at_ms  INTEGER NOT NULL DEFAULT 0,
    is_used       INTEGER NOT NULL DEFAULT 0,
    told_at_ms    INTEGER,
    use           TEXT NOT NULL DEFAULT 'unknown' CHECK (use IN ('unknown', 'confirmed', 'outdated'))
) STRICT, WITHOUT ROWID;

-- SPEC 8.8: our own access secrets, sealed. One is in use; those that were retired are read for 30 more days.
CREATE TABLE own_access (
    number        INTEGER PRIMARY KEY,
    sealed_secret BLOB NOT NULL,
    since_ms      INTEGER NOT NULL,
    retired_at_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX own_access_in_use ON own_access (retired_at_ms IS NULL) WHERE retired_at_ms IS NULL;

-- SPEC 7.1, 7.5: descriptors of mesh nodes, and how far each bucket of our inboxes was read.
CREATE TABLE mesh_node (
    descriptor BLOB NOT NULL CHECK (length(descriptor) <= 512)
) STRICT;

CREATE TABLE mesh_bucket (
    inbox           TEXT NOT NULL,
    bucket          INTEGER NOT NULL,
    phase           TEXT NOT NULL,
    next_read_at_ms INTEGER NOT NULL,
    reads_when_old  INTEGER NOT NULL,
    PRIMARY KEY (inbox, bucket)
) STRICT, WITHOUT ROWID;

-- Mail of people who are no contacts, as it came (sealed for us), until it is accepted or its sender is blocked.
CREATE TABLE request (
    request        INTEGER PRIMARY KEY,
    sender         BLOB NOT NULL CHECK (length(sender) = 32),
    payload_hash   BLOB NOT NULL UNIQUE,
    received_at_ms INTEGER NOT NULL,
    stored_at_ms   INTEGER NOT NULL,
    envelope       BLOB NOT NULL
) STRICT;
CREATE INDEX request_sender ON request (sender);

CREATE TABLE blocked_sender (
    sender        BLOB PRIMARY KEY CHECK (length(sender) = 32),
    blocked_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- SPEC 11.4: the nodes that guards are chosen from, and the guards in the order of their use.
CREATE TABLE guard_sample (
    node_id BLOB NOT NULL CHECK (length(node_id) = 32)
) STRICT;

CREATE TABLE circuit_guard (
    node_id        BLOB NOT NULL CHECK (length(node_id) = 32),
    chosen_at_ms   INTEGER NOT NULL,
    kept_until_ms  INTEGER NOT NULL,
    last_listed_ms INTEGER NOT NULL
) STRICT;

-- One-time prekeys of peers that we have used.
CREATE TABLE used_prekey (
    peer      BLOB NOT NULL,
    prekey_id INTEGER NOT NULL,
    PRIMARY KEY (peer, prekey_id)
) STRICT, WITHOUT ROWID;
