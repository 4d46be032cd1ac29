"""Events and effects of an incoming session. Data only; core/inbox decides."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from restante.model.states import Verdict


class KnownInOtherSession(StrEnum):
    """Whether the sender's message_id is known from another session (docs/decisions/0016)."""

    UNKNOWN = "unknown"
    SAME_CONTENT = "same_content"
    OTHER_CONTENT = "other_content"


class ResetReason(IntEnum):
    """Why a session cannot continue. The numbers are used on the wire."""

    GAP_TOO_WIDE = 1
    UNREADABLE = 2
    ASKED_FOR = 3


class Arrived(NamedTuple):
    """A message was decrypted, and its bytes were not known in this session. It is a tuple because one is made per
    message."""

    sequence: int
    elsewhere: KnownInOtherSession = KnownInOtherSession.UNKNOWN


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that the session wanted to be woken at may have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFailed:
    """The host can no longer decrypt this session although its bytes are authentic, or the user wants a new one."""

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class ResetAgreed:
    """The sender uses another session and re-encrypts there what has no receipt (SPEC 8.7)."""


Event = Arrived | TimePassed | SessionFailed | ResetAgreed


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """Record the verdict on the arrival. NEW and DUPLICATE are acknowledged, the others are security events."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Refuse:
    """Store and acknowledge nothing of this arrival: its sender will send it in another session."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Buffer the message of this number until its turn. Of a void number, record only that it was used."""

    sequence: int
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Release the message of this number to the application; `is_late` if later ones were released before it.

    After the verdict NEW, the number of the arrival means the arrival itself. Any other number is a buffered message.
    """

    sequence: int
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Discard:
    """The turn of a void number has come: there is nothing to release."""

    sequence: int


@dataclass(frozen=True, slots=True)
class RecordGap:
    """Record that the messages from `first` to `last` were skipped."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RequestRetransmit:
    """Request these numbers from the sender again, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AskReset:
    """Request a new session from the sender (SPEC 8.7)."""

    reason: ResetReason


Effect = RecordVerdict | Refuse | Hold | Release | Discard | RecordGap | RequestRetransmit | AskReset


class InboxEventType(StrEnum):
    """The application events of the receiving side (SPEC 3.12)."""

    NEW_MESSAGE = "new_message"
    GAP = "gap"
    SESSION_RESET = "session_reset"
    SECURITY = "security"
    DEDUP_EVICTED = "dedup_evicted"
    """The dedup index was full: it evicted arrivals before their window ended (SPEC 9.2)."""
