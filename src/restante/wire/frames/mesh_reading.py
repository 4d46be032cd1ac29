"""Frames by which a recipient reads and deletes its mail in the mesh (SPEC 7.4, 7.5)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.errors import Malformed
from restante.model.ids import (
    BLINDED_KEY_BYTES,
    INBOX_KEY_BYTES,
    BlindedKey,
    InboxKey,
    blinded_key,
    exactly,
    inbox_key,
)
from restante.wire.field_checks import (
    SIGNATURE_BYTES,
    UNSIGNED,
    check_number,
    check_signature,
    check_time,
    signature_to_encode,
)
from restante.wire.frames.greeting import CHALLENGE_BYTES, CHANNEL_BYTES
from restante.wire.frames.mesh_types import (
    HASH_BYTES,
    MAX_HASHES,
    MeshFrameType,
    check_flag,
    check_hashes,
    split_hashes,
)
from restante.wire.frames.types import only
from restante.wire.merkle import MAX_LEAVES
from restante.wire.mesh_keys import MAX_BUCKET

MAX_FETCH_ENTRIES: Final = 64  # SPEC 7.12
MAX_NUMBER: Final = 2**63 - 1  # a database row number
_ENTRY: Final = struct.Struct(f">{BLINDED_KEY_BYTES}sQQ{SIGNATURE_BYTES}s")
_ENTRY_TO_SIGN: Final = struct.Struct(f">B{CHALLENGE_BYTES}s{CHANNEL_BYTES}s{BLINDED_KEY_BYTES}sQQ")
_LISTED: Final = struct.Struct(f">{INBOX_KEY_BYTES}sQ")
_ANSWER: Final = struct.Struct(f">{INBOX_KEY_BYTES}sQQI{HASH_BYTES}sB")
_TIME: Final = struct.Struct(">Q")
_DELETE: Final = struct.Struct(f">{BLINDED_KEY_BYTES}sQ")
_FETCH_DOMAIN: Final = b"restante-fetch-v1"
_DONE_DOMAIN: Final = b"restante-fetch-done-v1"
_DELETE_DOMAIN: Final = b"restante-delete-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchEntry:
    """One inbox in one time bucket, with the owner's proof. `after` is the last number that the node has listed."""

    blinded: BlindedKey
    bucket: int
    after: int
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        blinded_key(self.blinded)
        check_number(self.bucket, "time bucket", high=MAX_BUCKET)
        check_number(self.after, "after", high=MAX_NUMBER)
        check_signature(self.signature)


def fetch_to_sign(entry: FetchEntry, frame_type: MeshFrameType, *, challenge: bytes, connection: bytes) -> bytes:
    """Return the bytes that the blinded key signs. They name the connection, so no node can use the proof elsewhere."""
    exactly(challenge, CHALLENGE_BYTES, "challenge")
    exactly(connection, CHANNEL_BYTES, "connection binding")
    return _FETCH_DOMAIN + _ENTRY_TO_SIGN.pack(
        frame_type, challenge, connection, entry.blinded, entry.bucket, entry.after
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EntriesBody:
    SIZES: ClassVar = range(_ENTRY.size, _ENTRY.size * MAX_FETCH_ENTRIES + 1, _ENTRY.size)
    entries: tuple[FetchEntry, ...]

    def __post_init__(self) -> None:
        _check_entries(self.entries)

    def body(self) -> bytes:
        return _join_entries(self.entries)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(entries=_split_entries(raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch(_EntriesBody):
    """List what you hold for these keys of one inbox: LISTED pages, then FETCH_DONE. WANT then asks for bodies."""

    TYPE: ClassVar = MeshFrameType.FETCH


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSubscribe(_EntriesBody):
    """As FETCH, and from then on push new mail of these keys as BLOCK frames."""

    TYPE: ClassVar = MeshFrameType.MESH_SUBSCRIBE


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page of hashes that the node holds for one key, in the order in which it stored them. `last` is the number of
    the last one: the `after` of the next request."""

    TYPE: ClassVar = MeshFrameType.LISTED
    SIZES: ClassVar = range(_LISTED.size + HASH_BYTES, _LISTED.size + HASH_BYTES * MAX_HASHES + 1, HASH_BYTES)
    inbox_key: InboxKey
    last: int
    hashes: tuple[bytes, ...]

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_number(self.last, "last", high=MAX_NUMBER)
        check_hashes(self.hashes, low=1)

    def body(self) -> bytes:
        return _LISTED.pack(self.inbox_key, self.last) + b"".join(self.hashes)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        key, last = _LISTED.unpack_from(raw)
        return cls(inbox_key=InboxKey(key), last=last, hashes=split_hashes(raw[_LISTED.size :]))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAnswer:
    """What FETCH_DONE says of one key: how many hashes it listed after `after`, the Merkle root of them sorted, and
    whether the node's silence counts (SPEC 7.5)."""

    inbox_key: InboxKey
    after: int
    last: int
    count: int
    root: bytes
    is_complete: bool

    def __post_init__(self) -> None:
        inbox_key(self.inbox_key)
        check_number(self.after, "after", high=MAX_NUMBER)
        check_number(self.last, "last", high=MAX_NUMBER)
        check_number(self.count, "number of listed hashes", high=MAX_LEAVES)
        exactly(self.root, HASH_BYTES, "root")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchDone:
    """The end of an answer, signed by the node: evidence if it hides mail (SPEC 7.4, 13.5)."""

    TYPE: ClassVar = MeshFrameType.FETCH_DONE
    SIZES: ClassVar = range(
        _TIME.size + SIGNATURE_BYTES + _ANSWER.size,
        _TIME.size + SIGNATURE_BYTES + _ANSWER.size * MAX_FETCH_ENTRIES + 1,
        _ANSWER.size,
    )
    answers: tuple[KeyAnswer, ...]
    time_ms: int
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        check_number(len(self.answers), "number of answers", low=1, high=MAX_FETCH_ENTRIES)
        check_time(self.time_ms, "time")
        check_signature(self.signature)

    def body(self) -> bytes:
        return _unsigned_done(self.answers, self.time_ms) + signature_to_encode(self.signature, "FETCH_DONE")

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (time_ms,) = _TIME.unpack_from(raw)
        answers = tuple(
            KeyAnswer(
                inbox_key=InboxKey(key),
                after=after,
                last=last,
                count=count,
                root=root,
                is_complete=check_flag(complete, "complete"),
            )
            for key, after, last, count, root, complete in _ANSWER.iter_unpack(raw[_TIME.size : -SIGNATURE_BYTES])
        )
        return cls(answers=answers, time_ms=time_ms, signature=raw[-SIGNATURE_BYTES:])


def done_to_sign(answers: Sequence[KeyAnswer], time_ms: int) -> bytes:
    return _DONE_DOMAIN + _unsigned_done(answers, time_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshDelete:
    """The owner has these blobs: delete them, keep their hashes. The blinded key signs, so nodes may pass it on."""

    TYPE: ClassVar = MeshFrameType.MESH_DELETE
    SIZES: ClassVar = range(
        _DELETE.size + SIGNATURE_BYTES + HASH_BYTES,
        _DELETE.size + SIGNATURE_BYTES + HASH_BYTES * MAX_HASHES + 1,
        HASH_BYTES,
    )
    blinded: BlindedKey
    bucket: int
    hashes: tuple[bytes, ...]
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        blinded_key(self.blinded)
        check_number(self.bucket, "time bucket", high=MAX_BUCKET)
        check_hashes(self.hashes, low=1)
        check_signature(self.signature)

    def body(self) -> bytes:
        return _unsigned_delete(self) + signature_to_encode(self.signature, "MESH_DELETE")

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        blinded, bucket = _DELETE.unpack_from(raw)
        return cls(
            blinded=BlindedKey(blinded),
            bucket=bucket,
            hashes=split_hashes(raw[_DELETE.size : -SIGNATURE_BYTES]),
            signature=raw[-SIGNATURE_BYTES:],
        )


def delete_to_sign(delete: MeshDelete) -> bytes:
    return _DELETE_DOMAIN + _unsigned_delete(delete)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshDeleted:
    """Answer to MESH_DELETE, after the commit."""

    TYPE: ClassVar = MeshFrameType.MESH_DELETED
    SIZES: ClassVar = only(0)

    def body(self) -> bytes:
        return b""

    @classmethod
    def from_body(cls, raw: bytes) -> Self:  # noqa: ARG003 - every frame is made the same way
        return cls()


def _check_entries(entries: tuple[FetchEntry, ...]) -> None:
    check_number(len(entries), "number of entries", low=1, high=MAX_FETCH_ENTRIES)
    if len({(each.blinded, each.bucket) for each in entries}) != len(entries):
        raise Malformed("a request names each key once")


def _join_entries(entries: tuple[FetchEntry, ...]) -> bytes:
    return b"".join(
        _ENTRY.pack(each.blinded, each.bucket, each.after, signature_to_encode(each.signature, "a fetch entry"))
        for each in entries
    )


def _split_entries(raw: bytes) -> tuple[FetchEntry, ...]:
    return tuple(
        FetchEntry(blinded=BlindedKey(blinded), bucket=bucket, after=after, signature=signature)
        for blinded, bucket, after, signature in _ENTRY.iter_unpack(raw)
    )


def _unsigned_done(answers: Sequence[KeyAnswer], time_ms: int) -> bytes:
    return _TIME.pack(time_ms) + b"".join(
        [
            _ANSWER.pack(each.inbox_key, each.after, each.last, each.count, each.root, each.is_complete)
            for each in answers
        ]
    )


def _unsigned_delete(delete: MeshDelete) -> bytes:
    return _DELETE.pack(delete.blinded, delete.bucket) + b"".join(delete.hashes)
