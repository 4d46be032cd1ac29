"""The frames of the mailbox family, and PING and PONG: one class a frame, with the layout of its body.

Each class declares the sizes its body may have; the frame splitter hands on bodies of those sizes only. The link
machine and the family decide whether a frame is allowed.
"""

import re
import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.errors import Malformed, TooLarge
from restante.model.limits import MAX_SEALED_BYTES
from restante.wire.acks import ACK_BYTES, Ack, AckType, encode_ack
from restante.wire.envelope import MAX_ENVELOPE_BYTES
from restante.wire.field_checks import MAX_TIME_MS, MAX_U32, check_number, check_time
from restante.wire.frames.types import FrameType, only
from restante.wire.merkle import MAX_RUN_PATH_BYTES, PATH_HEAD_BYTES, MerklePath, decode_path, encode_path
from restante.wire.storage_receipts import decode_commit_ack

MAX_REFUSAL_TEXT_BYTES: Final = 200
MAX_BLOB_ID: Final = 2**63 - 1  # a database row number
MAX_PUT_BYTES: Final = 2 * MAX_SEALED_BYTES
"""Twice the largest message: a message that is somewhat too large is refused and the connection stays (SPEC 6.7)."""

MAX_DELETED_AT_ONCE: Final = 1024
MAX_STORED_AT_ONCE: Final = 1024
_REFUSED: Final = struct.Struct(">B4sI")
_BLOB: Final = struct.Struct(">QQ")
_BLOB_ID: Final = struct.Struct(">Q")
_PUTS: Final = struct.Struct(">H")
_REQUEST_BYTES: Final = 4
_CODE: Final = re.compile(r"E[0-9]{3}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Client: store this envelope. Not decoded here: a bad one is answered by REFUSED and the connection stays."""

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
    """Node: these requests are on disk. Their storage receipts have one ack and, as neighbours, one path (SPEC 10.2).

    The client computes the leaves and from them the path of each. Answers the requests in its body; the request number
    of its header is 0.
    """

    TYPE: ClassVar = FrameType.STORED
    SIZES: ClassVar = range(
        ACK_BYTES + _PUTS.size + _REQUEST_BYTES + PATH_HEAD_BYTES,
        ACK_BYTES + _PUTS.size + _REQUEST_BYTES * MAX_STORED_AT_ONCE + MAX_RUN_PATH_BYTES + 1,
    )
    ack: Ack
    requests: tuple[int, ...]
    path: MerklePath

    def __post_init__(self) -> None:
        if self.ack.type is not AckType.DELIVERY:
            raise Malformed("STORED holds a DELIVERY ack")
        check_number(len(self.requests), "the number of requests", low=1, high=MAX_STORED_AT_ONCE)
        if len(self.requests) != self.path.length:
            raise Malformed("STORED names as many requests as leaves")
        check_number(min(self.requests), "request", high=MAX_U32)
        check_number(max(self.requests), "request", high=MAX_U32)

    def body(self) -> bytes:
        count = len(self.requests)
        requests = struct.pack(f">H{count}I", count, *self.requests)
        return encode_ack(self.ack) + requests + encode_path(self.path)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (count,) = _PUTS.unpack_from(raw, ACK_BYTES)
        start = ACK_BYTES + _PUTS.size
        end = start + count * _REQUEST_BYTES
        if not count or len(raw) < end + PATH_HEAD_BYTES:
            raise Malformed("STORED is shorter than its requests and their path")
        return cls(
            ack=decode_commit_ack(raw[:ACK_BYTES]),
            requests=struct.unpack_from(f">{count}I", raw, start),
            path=decode_path(raw[end:], count),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Node: the request is refused, permanently or for now. The code may be one that this version does not know."""

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
        # Printable, so that a peer cannot send control characters to a terminal or a log.
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
    """Node: a blob of the subscribed mailbox."""

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


def decode_blob(body: bytes) -> tuple[int, int, bytes]:
    """Return id, time and envelope of a BLOB; the same checks as `Blob` without an object, for every blob received."""
    blob_id, stored_at_ms = _BLOB.unpack_from(body)
    if blob_id > MAX_BLOB_ID or stored_at_ms > MAX_TIME_MS:
        Blob.from_body(body)  # raises, and says what is wrong
    return blob_id, stored_at_ms, body[_BLOB.size :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Client: delete these blobs, which the client has stored."""

    TYPE: ClassVar = FrameType.DELETE
    SIZES: ClassVar = range(_BLOB_ID.size, _BLOB_ID.size * MAX_DELETED_AT_ONCE + 1, _BLOB_ID.size)
    blob_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        check_number(len(self.blob_ids), "the number of blobs to delete", low=1, high=MAX_DELETED_AT_ONCE)
        for blob_id in self.blob_ids:
            check_number(blob_id, "blob id", high=MAX_BLOB_ID)

    def body(self) -> bytes:
        return struct.pack(f">{len(self.blob_ids)}Q", *self.blob_ids)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(blob_ids=struct.unpack(f">{len(raw) // _BLOB_ID.size}Q", raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Client: the application has taken all blobs up to this one, so more may be sent. Deletes nothing; no answer."""

    TYPE: ClassVar = FrameType.CREDIT
    SIZES: ClassVar = only(_BLOB_ID.size)
    through: int

    def __post_init__(self) -> None:
        check_number(self.through, "blob id", high=MAX_BLOB_ID)

    def body(self) -> bytes:
        return _BLOB_ID.pack(self.through)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (through,) = _BLOB_ID.unpack(raw)
        return cls(through=through)


@dataclass(frozen=True, slots=True)
class _Bare:
    """A frame without a body."""

    SIZES: ClassVar = only(0)

    def body(self) -> bytes:
        return b""

    @classmethod
    def from_body(cls, _raw: bytes) -> Self:
        return cls()


@dataclass(frozen=True, slots=True)
class Subscribed(_Bare):
    """Node: the subscription is open."""

    TYPE: ClassVar = FrameType.SUBSCRIBED


@dataclass(frozen=True, slots=True)
class Deleted(_Bare):
    """Node: the blobs are deleted."""

    TYPE: ClassVar = FrameType.DELETED


@dataclass(frozen=True, slots=True)
class Ping(_Bare):
    """Either end: answer with PONG."""

    TYPE: ClassVar = FrameType.PING


@dataclass(frozen=True, slots=True)
class Pong(_Bare):
    """The answer to a PING."""

    TYPE: ClassVar = FrameType.PONG
