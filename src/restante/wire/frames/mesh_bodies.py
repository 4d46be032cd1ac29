"""Bodies that two frames of the mesh share: they have one layout and differ in their number and meaning."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import BLINDED_KEY_BYTES, BlindedKey, blinded_key
from restante.wire.descriptors import MAX_DESCRIPTOR_BYTES
from restante.wire.envelope import MAX_ENVELOPE_BYTES
from restante.wire.field_checks import check_number, check_time
from restante.wire.frames.mesh_types import MAX_CONTACTS, check_descriptors, join_descriptors, split_descriptors
from restante.wire.mesh_keys import MAX_BUCKET

_KEY: Final = struct.Struct(f">{BLINDED_KEY_BYTES}sQ")
_TIME: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeBody:
    """An envelope. The blinded key and the bucket show that its inbox key is the right one (SPEC 7.10)."""

    SIZES: ClassVar = range(_KEY.size + 1, _KEY.size + MAX_ENVELOPE_BYTES + 1)
    blinded: BlindedKey
    bucket: int
    envelope: bytes

    def __post_init__(self) -> None:
        blinded_key(self.blinded)
        check_number(self.bucket, "time bucket", high=MAX_BUCKET)
        check_number(len(self.envelope), "the size of an envelope", low=1, high=MAX_ENVELOPE_BYTES)

    def body(self) -> bytes:
        return _KEY.pack(self.blinded, self.bucket) + self.envelope

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        blinded, bucket = _KEY.unpack_from(raw)
        return cls(blinded=BlindedKey(blinded), bucket=bucket, envelope=raw[_KEY.size :])


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactsBody:
    """The node's time, and descriptors in the order of their distance."""

    SIZES: ClassVar = range(_TIME.size, _TIME.size + MAX_CONTACTS * (2 + MAX_DESCRIPTOR_BYTES) + 1)
    time_ms: int
    descriptors: tuple[bytes, ...]

    def __post_init__(self) -> None:
        check_time(self.time_ms, "time")
        check_descriptors(self.descriptors, most=MAX_CONTACTS)

    def body(self) -> bytes:
        return _TIME.pack(self.time_ms) + join_descriptors(self.descriptors)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (time_ms,) = _TIME.unpack_from(raw)
        return cls(time_ms=time_ms, descriptors=split_descriptors(raw[_TIME.size :], most=MAX_CONTACTS))
