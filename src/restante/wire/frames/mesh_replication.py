"""Frames of the anti-entropy exchange between nodes (SPEC 7.9). WANT and BLOCK also serve the owner of a proved key."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import INBOX_KEY_BYTES, InboxKey, exactly, inbox_key
from restante.wire.field_checks import MAX_U32, check_number
from restante.wire.frames.mesh_bodies import EnvelopeBody
from restante.wire.frames.mesh_types import (
    HASH_BYTES,
    MAX_HASHES,
    MeshFrameType,
    check_flag,
    check_hashes,
    split_hashes,
)
from restante.wire.frames.types import only

MAX_SUMMARIES: Final = 256
_SUMMARY: Final = struct.Struct(f">{INBOX_KEY_BYTES}sI{HASH_BYTES}s")
_RANGE: Final = struct.Struct(f">{INBOX_KEY_BYTES}s{INBOX_KEY_BYTES}s")
_LIST: Final = struct.Struct(f">{INBOX_KEY_BYTES}sB")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySummary:
    """How many hashes the node knows for a key, and the XOR of them. Hashes of deleted blobs count, so a node that
    deleted agrees with one that still holds the blob."""

    inbox_key: InboxKey
    count: int
    xor: bytes

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_number(self.count, "number of hashes", high=MAX_U32)
        exactly(self.xor, HASH_BYTES, "XOR of hashes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Have:
    """Summaries of all keys that the sender holds from `low` to `high`, both included.

    Answered by HAVE_LIST frames for the keys of that range that differ, also those that the sender does not name, then
    HAVE_DONE. So a node that holds nothing learns what it lacks.

    One that names the only key of its range offers it (decision 0038): what differs is listed even if nothing is held.
    """

    TYPE: ClassVar = MeshFrameType.HAVE
    SIZES: ClassVar = range(_RANGE.size, _RANGE.size + _SUMMARY.size * MAX_SUMMARIES + 1, _SUMMARY.size)
    low: bytes
    high: bytes
    summaries: tuple[KeySummary, ...]

    def __post_init__(self) -> None:
        exactly(self.low, INBOX_KEY_BYTES, "first key")
        exactly(self.high, INBOX_KEY_BYTES, "last key")
        check_number(len(self.summaries), "number of keys", high=MAX_SUMMARIES)

    @property
    def is_offer(self) -> bool:
        """Whether the sender holds mail of one key, for the other node to fetch."""
        return self.low == self.high and [each.inbox_key for each in self.summaries] == [self.low]

    def body(self) -> bytes:
        return _RANGE.pack(self.low, self.high) + b"".join(
            _SUMMARY.pack(each.inbox_key, each.count, each.xor) for each in self.summaries
        )

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        low, high = _RANGE.unpack_from(raw)
        return cls(
            low=low,
            high=high,
            summaries=tuple(
                KeySummary(inbox_key=InboxKey(key), count=count, xor=xor)
                for key, count, xor in _SUMMARY.iter_unpack(raw[_RANGE.size :])
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HaveList:
    """A page of the hashes of live blobs that the node holds for a key. A prekey record counts as one blob."""

    TYPE: ClassVar = MeshFrameType.HAVE_LIST
    SIZES: ClassVar = range(_LIST.size, _LIST.size + HASH_BYTES * MAX_HASHES + 1, HASH_BYTES)
    inbox_key: InboxKey
    is_last: bool
    hashes: tuple[bytes, ...]

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_hashes(self.hashes)

    def body(self) -> bytes:
        return _LIST.pack(self.inbox_key, self.is_last) + b"".join(self.hashes)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        key, last = _LIST.unpack_from(raw)
        return cls(
            inbox_key=InboxKey(key),
            is_last=check_flag(last, "the last-page flag"),
            hashes=split_hashes(raw[_LIST.size :]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HaveDone:
    """The end of an answer to HAVE. What differs is listed up to the key `through`; ask again for what follows it."""

    TYPE: ClassVar = MeshFrameType.HAVE_DONE
    SIZES: ClassVar = only(INBOX_KEY_BYTES)
    through: bytes

    def __post_init__(self) -> None:
        exactly(self.through, INBOX_KEY_BYTES, "last key")

    def body(self) -> bytes:
        return self.through

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(through=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Send these blobs of a key: from a neighbour, or from the owner who proved the key on this connection.

    A prekey record under the key is sent as RECORD.
    """

    TYPE: ClassVar = MeshFrameType.WANT
    SIZES: ClassVar = range(INBOX_KEY_BYTES + HASH_BYTES, INBOX_KEY_BYTES + HASH_BYTES * MAX_HASHES + 1, HASH_BYTES)
    inbox_key: InboxKey
    hashes: tuple[bytes, ...]

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_hashes(self.hashes, low=1)

    def body(self) -> bytes:
        return self.inbox_key + b"".join(self.hashes)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(inbox_key=InboxKey(raw[:INBOX_KEY_BYTES]), hashes=split_hashes(raw[INBOX_KEY_BYTES:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(EnvelopeBody):
    """One blob that the other node wants, or a push to a subscription."""

    TYPE: ClassVar = MeshFrameType.BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class WantDone:
    """The end of an answer to WANT, with the wanted hashes that the node does not hold."""

    TYPE: ClassVar = MeshFrameType.WANT_DONE
    SIZES: ClassVar = range(0, HASH_BYTES * MAX_HASHES + 1, HASH_BYTES)
    missing: tuple[bytes, ...]

    def __post_init__(self) -> None:
        check_hashes(self.missing)

    def body(self) -> bytes:
        return b"".join(self.missing)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(missing=split_hashes(raw))
