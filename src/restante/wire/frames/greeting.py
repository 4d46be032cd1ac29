"""How a relay link begins: the server's greeting, the client's choice, and the proof that opens a receive session.

Each class knows the sizes its body may have; `from_body` is only given such a body.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import ADDRESS_BYTES, NODE_KEY_BYTES, Address, NodeKey, address, exactly, node_key
from restante.wire.field_checks import MAX_U32, SIGNATURE_BYTES, check_number
from restante.wire.frames.types import FrameType, only

CHALLENGE_BYTES: Final = 32
CHANNEL_BYTES: Final = 32
MAX_VERSION: Final = 255
_HELLO: Final = struct.Struct(f">BBI{CHALLENGE_BYTES}s{NODE_KEY_BYTES}s")
_START: Final = struct.Struct(">BI")
_OPEN_DOMAIN: Final = b"restante-open-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Server, first of all: what it speaks, who it is, and a challenge that no other connection has.

    Capabilities may be younger than their reader: bits it does not know are none of its business.
    """

    TYPE: ClassVar = FrameType.HELLO
    SIZES: ClassVar = only(_HELLO.size)
    lowest_version: int
    highest_version: int
    capabilities: int
    challenge: bytes
    node_key: NodeKey

    def __post_init__(self) -> None:
        check_number(self.highest_version, "the highest version", high=MAX_VERSION)
        check_number(self.lowest_version, "the lowest version", low=1, high=self.highest_version)
        check_number(self.capabilities, "capabilities", high=MAX_U32)
        exactly(self.challenge, CHALLENGE_BYTES, "challenge")
        node_key(self.node_key)

    def body(self) -> bytes:
        return _HELLO.pack(
            self.lowest_version, self.highest_version, self.capabilities, self.challenge, bytes(self.node_key)
        )

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        lowest, highest, capabilities, challenge, key = _HELLO.unpack(raw)
        return cls(
            lowest_version=lowest,
            highest_version=highest,
            capabilities=capabilities,
            challenge=challenge,
            node_key=NodeKey(key),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Client, first of all: the version it chose and the capabilities it will use. Answered only when refused."""

    TYPE: ClassVar = FrameType.START
    SIZES: ClassVar = only(_START.size)
    version: int
    capabilities: int

    def __post_init__(self) -> None:
        check_number(self.version, "version", high=MAX_VERSION)
        check_number(self.capabilities, "capabilities", high=MAX_U32)

    def body(self) -> bytes:
        return _START.pack(self.version, self.capabilities)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        version, capabilities = _START.unpack(raw)
        return cls(version=version, capabilities=capabilities)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Client: this address is mine, let me receive; signed over `open_to_sign` (SPEC 6.5)."""

    TYPE: ClassVar = FrameType.OPEN
    SIZES: ClassVar = only(ADDRESS_BYTES + SIGNATURE_BYTES)
    address: Address
    signature: bytes

    def __post_init__(self) -> None:
        address(self.address)
        exactly(self.signature, SIGNATURE_BYTES, "signature")

    def body(self) -> bytes:
        return self.address + self.signature

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(address=Address(raw[:ADDRESS_BYTES]), signature=raw[ADDRESS_BYTES:])


def open_to_sign(hello: Hello, channel: bytes, owner: Address) -> bytes:
    """Bound to this node by its key and to this connection twice: by the challenge, and by `channel`, the hash of what
    only the two ends of its encryption know. Whoever stands between two connections has two channels."""
    return _OPEN_DOMAIN + hello.body() + exactly(channel, CHANNEL_BYTES, "channel") + address(owner)
