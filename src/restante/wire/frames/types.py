"""Frame types, protocol version and capabilities: the numbers both ends of a connection must agree on."""

from enum import IntEnum, IntFlag
from typing import Final

PROTOCOL_VERSION: Final = 1
"""The only version. A node offers a range of versions in HELLO, a client chooses one in START."""


class Capability(IntFlag):
    """What a node offers besides storing mail. A client names those it will use; other bits are refused."""

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
    """Return the sizes of a body that has just one."""
    return range(size, size + 1)
