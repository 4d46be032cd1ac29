-- Encrypted sessions (SPEC 8): a ratchet a session, who is written to in which, and which message was sealed for which.
-- What was queued before these sessions goes out as it is and is refused by its reader: that form is no longer read.
DROP TABLE outgoing_session;

-- `sealed_state` is the ratchet, under the storage key. `opening` goes with every message until the first answer, and is
-- there only if we opened the session. A session that was left is still read for as long as its skipped keys are kept.
CREATE TABLE session (
    session       INTEGER PRIMARY KEY,
    peer          BLOB NOT NULL CHECK (length(peer) = 32),
    session_id    BLOB NOT NULL CHECK (length(session_id) = 32),
    is_ours       INTEGER NOT NULL,
    continues     BLOB,
    began_at_ms   INTEGER NOT NULL,
    left_at_ms    INTEGER,
    next_sequence INTEGER NOT NULL,
    opening       BLOB,
    sealed_state  BLOB NOT NULL,
    UNIQUE (peer, session_id)
) STRICT;

CREATE INDEX session_left ON session (left_at_ms) WHERE left_at_ms IS NOT NULL;

-- The session in which we write to somebody.
CREATE TABLE standing (
    peer    BLOB PRIMARY KEY CHECK (length(peer) = 32),
    session INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Which message has a number in one of our sessions; rows of messages that have ended are swept now and then.
CREATE TABLE sealed_for (
    session    INTEGER NOT NULL,
    sequence   INTEGER NOT NULL,
    message_id BLOB NOT NULL,
    PRIMARY KEY (session, sequence)
) STRICT, WITHOUT ROWID;

-- Our own prekeys, secret halves, under the storage key.
CREATE TABLE own_prekeys (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    sealed BLOB NOT NULL
) STRICT;

-- One-time prekeys of others that we have used: never a second time.
CREATE TABLE spent_prekey (
    peer      BLOB NOT NULL,
    prekey_id INTEGER NOT NULL,
    PRIMARY KEY (peer, prekey_id)
) STRICT, WITHOUT ROWID;
