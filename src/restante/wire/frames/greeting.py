"""The first frames of a connection: the node's greeting, the client's choice, and the proof for a subscription.

Each class declares the sizes its body may have; the frame splitter hands on bodies of those sizes only.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import BLINDED_KEY_BYTES, NODE_KEY_BYTES, BlindedKey, NodeKey, blinded_key, exactly, node_key
from restante.wire.field_checks import MAX_U32, SIGNATURE_BYTES, check_number, check_time
from restante.wire.frames.types import FrameType, only

CHALLENGE_BYTES: Final = 32
CHANNEL_BYTES: Final = 32
MAX_VERSION: Final = 255
_HELLO: Final = struct.Struct(f">BBI{CHALLENGE_BYTES}s{NODE_KEY_BYTES}sQ")
_START: Final = struct.Struct(">BI")
_OPEN_DOMAIN: Final = b"restante-open-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Node, first frame: versions and capabilities, its key, a challenge that no other connection has, and its time.

    Clients ignore unknown capability bits; newer versions define them. `now_ms` is the node's clock (SPEC 6.10).
    """

    TYPE: ClassVar = FrameType.HELLO
    SIZES: ClassVar = only(_HELLO.size)
    lowest_version: int
    highest_version: int
    capabilities: int
    challenge: bytes
    node_key: NodeKey
    now_ms: int

    def __post_init__(self) -> None:
        check_number(self.highest_version, "the highest version", high=MAX_VERSION)
        check_number(self.lowest_version, "the lowest version", low=1, high=self.highest_version)
        check_number(self.capabilities, "capabilities", high=MAX_U32)
        exactly(self.challenge, CHALLENGE_BYTES, "challenge")
        node_key(self.node_key)
        check_time(self.now_ms, "the node's time")

    def body(self) -> bytes:
        return _HELLO.pack(
            self.lowest_version,
            self.highest_version,
            self.capabilities,
            self.challenge,
            bytes(self.node_key),
            self.now_ms,
        )

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        lowest, highest, capabilities, challenge, key, now_ms = _HELLO.unpack(raw)
        return cls(
            lowest_version=lowest,
            highest_version=highest,
            capabilities=capabilities,
            challenge=challenge,
            node_key=NodeKey(key),
            now_ms=now_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Client, first frame: the version it chose and the capabilities it will use. Answered only when refused."""

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
    """Client: subscribe to the mailbox of this blinded key; signed by it over `open_to_sign` (SPEC 6.5, 7.2)."""

    TYPE: ClassVar = FrameType.SUBSCRIBE
    SIZES: ClassVar = only(BLINDED_KEY_BYTES + SIGNATURE_BYTES)
    blinded_key: BlindedKey
    signature: bytes

    def __post_init__(self) -> None:
        blinded_key(self.blinded_key)
        exactly(self.signature, SIGNATURE_BYTES, "signature")

    def body(self) -> bytes:
        return self.blinded_key + self.signature

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(blinded_key=BlindedKey(raw[:BLINDED_KEY_BYTES]), signature=raw[BLINDED_KEY_BYTES:])


def open_to_sign(hello: Hello, channel: bytes, inbox: BlindedKey) -> bytes:
    """Return the bytes that a SUBSCRIBE signs.

    They bind the proof to the node by its key, and to the connection by the challenge and by `channel`, the hash of a
    secret of the TLS handshake. A man in the middle has two connections with two channels.
    """
    return _OPEN_DOMAIN + hello.body() + exactly(channel, CHANNEL_BYTES, "channel") + blinded_key(inbox)
