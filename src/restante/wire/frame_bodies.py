"""What the two ends of a relay link say to each other: one class a frame, with the layout of its body.

Each class knows the sizes its body may have; `from_body` is only given such a body. Whether a frame is welcome at
this moment is decided elsewhere.
"""

import re
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import ADDRESS_BYTES, NODE_KEY_BYTES, Address, NodeKey, address, exactly, node_key
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.acks import ACK_BYTES, Ack, AckType, decode_ack, encode_ack
from restante.wire.envelope import MAX_ENVELOPE_BYTES
from restante.wire.fields import MAX_U32, SIGNATURE_BYTES, check_number, check_time

CHALLENGE_BYTES: Final = 32
MAX_REFUSAL_TEXT_BYTES: Final = 200
MAX_BLOB_ID: Final = 2**63 - 1  # a database row number
MAX_PUT_BYTES: Final = 2 * MAX_SEALED_BYTES
"""Twice the largest message: one that is somewhat too large is refused by its code and the link lives on (SPEC 6.7)."""

_OPEN_DOMAIN: Final = b"restante-open-v1"
_REFUSED: Final = struct.Struct(">B4sI")
_BLOB: Final = struct.Struct(">QQ")
_BLOB_ID: Final = struct.Struct(">Q")
_CODE: Final = re.compile(r"E[0-9]{3}", re.ASCII)


class FrameType(IntEnum):
    HELLO = 0x01
    OPEN = 0x02
    OPENED = 0x03
    PUT = 0x10
    STORED = 0x11
    REFUSED = 0x12
    BLOB = 0x20
    DELETE = 0x21
    DELETED = 0x22
    PING = 0x30
    PONG = 0x31


def _only(size: int) -> range:
    return range(size, size + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Server, first of all: who it is, and a challenge that no other connection has."""

    TYPE: ClassVar = FrameType.HELLO
    SIZES: ClassVar = _only(CHALLENGE_BYTES + NODE_KEY_BYTES)
    challenge: bytes
    node_key: NodeKey

    def __post_init__(self) -> None:
        exactly(self.challenge, CHALLENGE_BYTES, "challenge")
        node_key(self.node_key)

    def body(self) -> bytes:
        return self.challenge + self.node_key

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(challenge=raw[:CHALLENGE_BYTES], node_key=NodeKey(raw[CHALLENGE_BYTES:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Client: this address is mine, let me receive; signed over `open_to_sign` (SPEC 6.5)."""

    TYPE: ClassVar = FrameType.OPEN
    SIZES: ClassVar = _only(ADDRESS_BYTES + SIGNATURE_BYTES)
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


def open_to_sign(hello: Hello, owner: Address) -> bytes:
    """Bound to this connection by its challenge and to this node by its id: no other node can use it again."""
    return _OPEN_DOMAIN + hello.body() + address(owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Client: keep this. The envelope stays bytes here: a bad one is answered by REFUSED, the link lives on."""

    TYPE: ClassVar = FrameType.PUT
    SIZES: ClassVar = range(MAX_PUT_BYTES + 1)
    envelope: bytes

    def __post_init__(self) -> None:
        if len(self.envelope) > MAX_PUT_BYTES:
            raise TooLarge("an envelope to put", size_bytes=len(self.envelope), limit_bytes=MAX_PUT_BYTES)

    def body(self) -> bytes:
        return self.envelope

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(envelope=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Server: what was put is on disk; here is the evidence (SPEC 7.8)."""

    TYPE: ClassVar = FrameType.STORED
    SIZES: ClassVar = _only(ACK_BYTES)
    ack: Ack

    def __post_init__(self) -> None:
        if self.ack.type != AckType.DELIVERY:
            raise Malformed("STORED carries a DELIVERY ack and no other")

    def body(self) -> bytes:
        return encode_ack(self.ack)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(ack=decode_ack(raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Server: no, and whether trying again can help. The code may be younger than its reader: it is not looked up."""

    TYPE: ClassVar = FrameType.REFUSED
    SIZES: ClassVar = range(_REFUSED.size, _REFUSED.size + MAX_REFUSAL_TEXT_BYTES + 1)
    permanent: bool
    code: str
    retry_after_ms: int
    text: str

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            raise Malformed("the code of a refusal must be E and three digits")
        check_number(self.retry_after_ms, "retry_after", high=MAX_U32)
        # Printable, so that a peer cannot steer the terminal or the log that shows it.
        if not self.text.isprintable() or len(self.text.encode("utf-8")) > MAX_REFUSAL_TEXT_BYTES:
            raise Malformed(f"the text of a refusal must be printable, of at most {MAX_REFUSAL_TEXT_BYTES} bytes")

    def body(self) -> bytes:
        head = _REFUSED.pack(self.permanent, self.code.encode("ascii"), self.retry_after_ms)
        return head + self.text.encode("utf-8")

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        permanence, code, retry_after_ms = _REFUSED.unpack_from(raw)
        if permanence > 1:
            raise Malformed(f"the permanence of a refusal must be 0 or 1, not {permanence}")
        try:
            text = raw[_REFUSED.size :].decode("utf-8")
            return cls(permanent=permanence == 1, code=code.decode("ascii"), retry_after_ms=retry_after_ms, text=text)
        except UnicodeDecodeError:
            raise Malformed("the code of a refusal must be ASCII and its text UTF-8") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """Server: mail for the holder of the open address."""

    TYPE: ClassVar = FrameType.BLOB
    SIZES: ClassVar = range(_BLOB.size + 1, _BLOB.size + MAX_ENVELOPE_BYTES + 1)
    blob_id: int
    stored_at_ms: int
    envelope: bytes

    def __post_init__(self) -> None:
        check_number(self.blob_id, "blob id", high=MAX_BLOB_ID)
        check_time(self.stored_at_ms, "stored_at")
        check_number(len(self.envelope), "the size of an envelope", low=1, high=MAX_ENVELOPE_BYTES)

    def body(self) -> bytes:
        return _BLOB.pack(self.blob_id, self.stored_at_ms) + self.envelope

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        blob_id, stored_at_ms = _BLOB.unpack_from(raw)
        return cls(blob_id=blob_id, stored_at_ms=stored_at_ms, envelope=raw[_BLOB.size :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Client: this blob is safe with me, remove it."""

    TYPE: ClassVar = FrameType.DELETE
    SIZES: ClassVar = _only(_BLOB_ID.size)
    blob_id: int

    def __post_init__(self) -> None:
        check_number(self.blob_id, "blob id", high=MAX_BLOB_ID)

    def body(self) -> bytes:
        return _BLOB_ID.pack(self.blob_id)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (blob_id,) = _BLOB_ID.unpack(raw)
        return cls(blob_id=blob_id)


@dataclass(frozen=True, slots=True)
class _Bare:
    """A frame that says all by its type."""

    SIZES: ClassVar = _only(0)

    def body(self) -> bytes:
        return b""

    @classmethod
    def from_body(cls, _raw: bytes) -> Self:
        return cls()


@dataclass(frozen=True, slots=True)
class Opened(_Bare):
    """Server: the receive session is open."""

    TYPE: ClassVar = FrameType.OPENED


@dataclass(frozen=True, slots=True)
class Deleted(_Bare):
    """Server: the blob is gone."""

    TYPE: ClassVar = FrameType.DELETED


@dataclass(frozen=True, slots=True)
class Ping(_Bare):
    """Either end: are you there?"""

    TYPE: ClassVar = FrameType.PING


@dataclass(frozen=True, slots=True)
class Pong(_Bare):
    """The answer to a PING."""

    TYPE: ClassVar = FrameType.PONG
