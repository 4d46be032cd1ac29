"""What can happen between a client and one peer, and what the host then does. core/peer_sessions decides."""

from typing import NamedTuple

from restante.model.ids import MessageId, PayloadHash, SessionId


class KnownSession(NamedTuple):
    """What the rules need to know of a session. `is_read`: a message of the peer was decrypted in it."""

    session_id: SessionId
    generation: int
    is_initiator: bool
    is_read: bool = False
    is_confirmed: bool = False
    """Each side has read the other in it."""
    is_closed: bool = False
    """Not sent in again, but still read: what happens without rule N or D. No rule closes a session."""


class UnreadMessage(NamedTuple):
    """A tagged message of the peer that could not be decrypted."""

    payload_hash: PayloadHash
    message_id: MessageId
    session_id: SessionId
    generation: int


class Opened(NamedTuple):
    """This client opened a session: for mail, or because of an `OpenSession` effect."""

    session: KnownSession


class Read(NamedTuple):
    """A message of the peer was decrypted. A session that is not known yet is one that the peer opened."""

    session_id: SessionId
    generation: int
    message_id: MessageId
    is_confirmed: bool = False


class Unreadable(NamedTuple):
    """A message that was not received before could not be decrypted."""

    message: UnreadMessage
    has_valid_tag: bool = True


class Owed(NamedTuple):
    """A message of this client to the peer without a receipt, with its latest envelope."""

    message_id: MessageId
    payload_hash: PayloadHash
    session_id: SessionId
    generation: int
    size_bytes: int


class CannotReadReceived(NamedTuple):
    """The peer names envelopes that it could not read; `owed` is what this client still has to deliver to it."""

    hashes: frozenset[PayloadHash]
    owed: tuple[Owed, ...]
    sessions: frozenset[SessionId] = frozenset()
    """Only without rule N: the sessions of the named envelopes, which are then closed."""


class LostReceived(NamedTuple):
    """The peer lost its state and opened this session; it holds no older one."""

    session_id: SessionId
    generation: int
    owed: tuple[Owed, ...]


class StateLost(NamedTuple):
    """This client was restored from a backup, or its user asked for a reset."""


class EncryptFailed(NamedTuple):
    """This client could not encrypt in a session of its own."""

    session_id: SessionId


class SessionExpired(NamedTuple):
    """The host deleted an old session whose keys have expired."""

    session_id: SessionId


class TimePassed(NamedTuple):
    """A retry interval may have ended."""


Event = (
    Opened
    | Read
    | Unreadable
    | CannotReadReceived
    | LostReceived
    | StateLost
    | EncryptFailed
    | SessionExpired
    | TimePassed
)


class CannotRead(NamedTuple):
    """The control message that names unreadable envelopes."""

    hashes: tuple[PayloadHash, ...]


class Lost(NamedTuple):
    """The control message that says this client holds no older session."""


class OpenSession(NamedTuple):
    """Do a handshake with this generation, report `Opened`, and send `first` as the first message of the session."""

    generation: int
    first: CannotRead | Lost
    uses_one_time_prekey: bool


class SendControl(NamedTuple):
    """Send a control message in this session."""

    session_id: SessionId
    message: CannotRead | Lost


class Reencrypt(NamedTuple):
    """Encrypt this message again, under its id, in the current session."""

    message_id: MessageId


class DeleteSessions(NamedTuple):
    """Delete the keys of these sessions."""

    session_ids: tuple[SessionId, ...]


class ReportLimit(NamedTuple):
    """Tell the user that a daily limit stopped the recovery: `openings` or `reencrypted_bytes`."""

    limit: str


Effect = OpenSession | SendControl | Reencrypt | DeleteSessions | ReportLimit
