"""Events and effects of an incoming session. Data only; core/inbox decides."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from restante.model.states import Verdict


class KnownInOtherSession(StrEnum):
    """Whether the sender's message_id is known from another session (docs/decisions/0016)."""

    UNKNOWN = "unknown"
    SAME_CONTENT = "same_content"
    OTHER_CONTENT = "other_content"


class Arrived(NamedTuple):
    """A message was decrypted, and its bytes were not known in this session. It is a tuple because one is made per
    message."""

    sequence: int
    elsewhere: KnownInOtherSession = KnownInOtherSession.UNKNOWN
    is_control: bool = False
    """The host acts on a control message at once. In the order it only occupies its number (SPEC 9.4)."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time that the session wanted to be woken at may have come."""


Event = Arrived | TimePassed


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """Record the verdict on the arrival. NEW and DUPLICATE are acknowledged, the others are security events."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Refuse:
    """The number is too far ahead: store nothing of this arrival and treat it as unreadable (SPEC 8.7, 9.4)."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Buffer the message of this number until its turn. Of a placeholder, record only that its number was used."""

    sequence: int
    is_placeholder: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Release the message of this number to the application; `is_late` if later ones were released before it.

    After the verdict NEW, the number of the arrival means the arrival itself. Any other number is a buffered message.
    """

    sequence: int
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Discard:
    """The turn of a placeholder has come: there is nothing to release."""

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


Effect = RecordVerdict | Refuse | Hold | Release | Discard | RecordGap | RequestRetransmit


class InboxEventType(StrEnum):
    """The application events of the receiving side (SPEC 3.12)."""

    NEW_MESSAGE = "new_message"
    GAP = "gap"
    SESSION_CHANGED = "session_changed"
    """Messages to this contact are encrypted in another session from now on (SPEC 8.7)."""
    SECURITY = "security"
    DEDUP_EVICTED = "dedup_evicted"
    """The dedup index was full: it evicted arrivals before their window ended (SPEC 9.2)."""
