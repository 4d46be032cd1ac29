"""Frames that store mail and prekey records in the mesh (SPEC 7.3, 7.6, 7.10)."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import exactly
from restante.wire.field_checks import check_number, check_time
from restante.wire.frames.mesh_bodies import ContactsBody, EnvelopeBody
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.frames.types import only
from restante.wire.mesh_keys import RECORD_KEY_BYTES
from restante.wire.prekey_records import MAX_RECORD_BYTES, MIN_RECORD_BYTES
from restante.wire.storage_receipts import (
    MAX_RECEIPT_BYTES,
    MIN_RECEIPT_BYTES,
    StorageReceipt,
    decode_receipt,
    encode_receipt,
)

_TIME: Final = struct.Struct(">Q")
_ROOM: Final = struct.Struct(">QQ")
UNLIMITED: Final = 2**64 - 1
"""In place of a room: the node does not limit its sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPut(EnvelopeBody):
    """Store this envelope."""

    TYPE: ClassVar = MeshFrameType.MESH_PUT


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStored:
    """Answer to a put: it is on disk, and this is the signed evidence."""

    TYPE: ClassVar = MeshFrameType.MESH_STORED
    SIZES: ClassVar = range(MIN_RECEIPT_BYTES, MAX_RECEIPT_BYTES + 1)
    receipt: StorageReceipt

    def body(self) -> bytes:
        return encode_receipt(self.receipt)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(receipt=decode_receipt(raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshRoom:
    """Before the answer to a put of another node that is limited: what this source may still store (SPEC 6.6).

    In all, and under the key of this put. An exit divides both among its circuits.
    """

    TYPE: ClassVar = MeshFrameType.MESH_ROOM
    SIZES: ClassVar = only(_ROOM.size)
    node_bytes: int
    key_bytes: int

    def __post_init__(self) -> None:
        check_number(self.node_bytes, "room at the node", high=UNLIMITED)
        check_number(self.key_bytes, "room under the key", high=UNLIMITED)

    def body(self) -> bytes:
        return _ROOM.pack(self.node_bytes, self.key_bytes)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        node_bytes, key_bytes = _ROOM.unpack(raw)
        return cls(node_bytes=node_bytes, key_bytes=key_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongBucket:
    """Answer to a put into another time bucket than the node's own: correct the bucket by the node's time."""

    TYPE: ClassVar = MeshFrameType.WRONG_BUCKET
    SIZES: ClassVar = only(_TIME.size)
    time_ms: int

    def __post_init__(self) -> None:
        check_time(self.time_ms, "time")

    def body(self) -> bytes:
        return _TIME.pack(self.time_ms)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(time_ms=_TIME.unpack(raw)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class NotResponsible(ContactsBody):
    """Answer to a put whose key is not among the node's 16 closest: these nodes are closer."""

    TYPE: ClassVar = MeshFrameType.NOT_RESPONSIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRecord:
    """Store this prekey record under the key that follows from its blinded key; answered by RECORD, the newest one."""

    TYPE: ClassVar = MeshFrameType.PUT_RECORD
    SIZES: ClassVar = range(MIN_RECORD_BYTES, MAX_RECORD_BYTES + 1)
    record: bytes

    def __post_init__(self) -> None:
        check_number(len(self.record), "the size of a record", low=MIN_RECORD_BYTES, high=MAX_RECORD_BYTES)

    def body(self) -> bytes:
        return self.record

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(record=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRecord:
    TYPE: ClassVar = MeshFrameType.GET_RECORD
    SIZES: ClassVar = only(RECORD_KEY_BYTES)
    key: bytes

    def __post_init__(self) -> None:
        exactly(self.key, RECORD_KEY_BYTES, "record key")

    def body(self) -> bytes:
        return self.key

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(key=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The newest record that the node holds for a key; no bytes if it holds none."""

    TYPE: ClassVar = MeshFrameType.RECORD
    SIZES: ClassVar = range(MAX_RECORD_BYTES + 1)
    record: bytes

    def __post_init__(self) -> None:
        if self.record:
            check_number(len(self.record), "the size of a record", low=MIN_RECORD_BYTES, high=MAX_RECORD_BYTES)

    def body(self) -> bytes:
        return self.record

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(record=raw)
