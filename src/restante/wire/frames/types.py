"""The numbers both ends of a relay link must agree on before anything else: types of frames, version, capabilities."""

from enum import IntEnum, IntFlag
from typing import Final

PROTOCOL_VERSION: Final = 1
"""The one version there is. A server names the range it speaks, a client the one it chose."""


class Capability(IntFlag):
    """What a server can do beyond taking mail. A client names those it will use; a bit nobody gave it is refused."""

    RECEIVE = 0x1


class FrameType(IntEnum):
    HELLO = 0x01
    SUBSCRIBE = 0x02
    SUBSCRIBED = 0x03
    START = 0x04
    PUT = 0x10
    STORED = 0x11
    REFUSED = 0x12
    BLOB = 0x20
    DELETE = 0x21
    DELETED = 0x22
    CREDIT = 0x23
    PING = 0x30
    PONG = 0x31


def only(size: int) -> range:
    """The sizes of a body that has just one."""
    return range(size, size + 1)
