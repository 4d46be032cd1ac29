"""What can happen to an incoming session, and what the host must then do. Data only; core/inbox decides."""

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
    """Why a session cannot go on; the numbers are those of the wire."""

    GAP_TOO_WIDE = 1
    UNREADABLE = 2
    ASKED_FOR = 3


class Arrived(NamedTuple):
    """A message opened, and its bytes were not known in this session. A tuple: it happens with every message."""

    sequence: int
    elsewhere: KnownInOtherSession = KnownInOtherSession.UNKNOWN


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The moment the session asked to be woken at may have come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFailed:
    """The host can no longer read this session, although its bytes are authentic; or somebody wants a new one."""

    reason: ResetReason


@dataclass(frozen=True, slots=True)
class ResetAgreed:
    """The sender goes on in another session and sends there again what it has no receipt for (SPEC 8.7)."""


Event = Arrived | TimePassed | SessionFailed | ResetAgreed


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """Write down what the arrival was. NEW and DUPLICATE are acknowledged, the others are security events."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Refuse:
    """Take nothing of this arrival in and acknowledge nothing: its sender is to send it in another session."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the message of this number until its turn comes; of a void one, only that the number was used."""

    sequence: int
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Hand the message of this number to the application; `is_late` when later ones were handed on before it.

    After the verdict NEW, the number that arrived means the arrival itself; any other, or any before it, has waited.
    """

    sequence: int
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Discard:
    """The turn of a void number has come: there is nothing to hand on."""

    sequence: int


@dataclass(frozen=True, slots=True)
class RecordGap:
    """The messages from `first` to `last` are no longer waited for."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RequestRetransmit:
    """Ask the sender for these numbers again, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AskReset:
    """Agree with the sender on a new session (SPEC 8.7)."""

    reason: ResetReason


Effect = RecordVerdict | Refuse | Hold | Release | Discard | RecordGap | RequestRetransmit | AskReset


class InboxNotice(StrEnum):
    """What an application is told of the receiving side."""

    NEW_MESSAGE = "new_message"
    GAP = "gap"
    RESET = "reset"
    SECURITY = "security"
    FORGOTTEN = "forgotten"
    """Arrivals were forgotten before their time, because too many came (SPEC 9.2)."""
