"""The kinds of message with the limits of each (SPEC 2.2, 2.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S


class Priority(IntEnum):
    """Which ready entries leave first (SPEC 2.2)."""

    LOW = 0
    NORMAL = 1
    HIGH = 2


class DeliveryClass(StrEnum):
    DURABLE = "durable"
    REAL_TIME = "real-time"


class TtlType(IntEnum):
    """The moment from which a TTL is counted (SPEC 2.6)."""

    ABSOLUTE = 0
    RELATIVE = 1


class Kind(StrEnum):
    """The kinds of messages (SPEC 2.3)."""

    TEXT = "text"
    MEDIA = "media"
    READ_RECEIPT = "read_receipt"
    DISAPPEARING = "disappearing"
    DRAWING = "drawing"
    DRAWING_DELETE = "drawing_delete"
    CHAT = "chat"
    CHAT_LEAVE = "chat_leave"
    VOICE_LEAVE = "voice_leave"
    CONTROL = "control"
    TYPING = "typing"
    POSITION = "position"
    HEARTBEAT = "heartbeat"
    VOICE_FRAME = "voice_frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """One row of the table in SPEC 2.3."""

    delivery: DeliveryClass = DeliveryClass.DURABLE
    ttl_type: TtlType = TtlType.ABSOLUTE
    ttl_default_s: int | None
    ttl_min_s: int
    ttl_max_s: int
    priority: Priority = Priority.NORMAL


_SHARED_BOARD: Final = KindRule(ttl_default_s=7 * DAY_S, ttl_min_s=HOUR_S, ttl_max_s=30 * DAY_S)
_LIVE: Final = KindRule(
    delivery=DeliveryClass.REAL_TIME, ttl_default_s=30, ttl_min_s=1, ttl_max_s=60, priority=Priority.HIGH
)

KIND_RULES: Final[Mapping[Kind, KindRule]] = MappingProxyType(
    {
        Kind.TEXT: KindRule(ttl_default_s=30 * DAY_S, ttl_min_s=HOUR_S, ttl_max_s=90 * DAY_S),
        Kind.MEDIA: KindRule(ttl_default_s=7 * DAY_S, ttl_min_s=HOUR_S, ttl_max_s=30 * DAY_S, priority=Priority.LOW),
        Kind.READ_RECEIPT: KindRule(ttl_default_s=DAY_S, ttl_min_s=HOUR_S, ttl_max_s=7 * DAY_S, priority=Priority.HIGH),
        Kind.DISAPPEARING: KindRule(ttl_type=TtlType.RELATIVE, ttl_default_s=None, ttl_min_s=5, ttl_max_s=30 * DAY_S),
        Kind.DRAWING: _SHARED_BOARD,
        Kind.DRAWING_DELETE: _SHARED_BOARD,
        Kind.CHAT: _SHARED_BOARD,
        Kind.CHAT_LEAVE: _SHARED_BOARD,
        Kind.VOICE_LEAVE: _SHARED_BOARD,
        Kind.CONTROL: KindRule(
            ttl_default_s=30 * DAY_S, ttl_min_s=HOUR_S, ttl_max_s=30 * DAY_S, priority=Priority.HIGH
        ),
        Kind.TYPING: KindRule(
            delivery=DeliveryClass.REAL_TIME,
            ttl_default_s=30,
            ttl_min_s=10,
            ttl_max_s=60,
            priority=Priority.HIGH,
        ),
        Kind.POSITION: _LIVE,
        Kind.HEARTBEAT: _LIVE,
        Kind.VOICE_FRAME: _LIVE,
    }
)


_BY_NAME: Final = {kind.value: kind for kind in Kind}


def parse_kind(text: str) -> Kind | None:
    """Return the kind of that name, or None for an unknown name (the send is then dropped with a reason, SPEC 2.4)."""
    return _BY_NAME.get(text)
