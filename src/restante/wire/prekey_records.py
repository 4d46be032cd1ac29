"""Encode and decode prekey records: the base bundle of an identity as nodes of the mesh store it (SPEC 7.6).

Layout: version u8, blinded key of the period 32, period u64, issued u64, sealed bundle, signature 64 by the blinded
key. crypto/record_seal encrypts the bundle.
"""

import struct
from dataclasses import dataclass
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import BLINDED_KEY_BYTES, BlindedKey, blinded_key
from restante.wire.field_checks import (
    SIGNATURE_BYTES,
    UNSIGNED,
    check_number,
    check_signature,
    check_time,
    signature_to_encode,
)

RECORD_VERSION: Final = 1
MAX_RECORD_BYTES: Final = 8_192
MAX_PERIOD: Final = 0xFFFF_FFFF
_HEAD: Final = struct.Struct(f">B{BLINDED_KEY_BYTES}sQQ")
MIN_RECORD_BYTES: Final = _HEAD.size + 1 + SIGNATURE_BYTES
MAX_SEALED_BUNDLE_BYTES: Final = MAX_RECORD_BYTES - _HEAD.size - SIGNATURE_BYTES
_RECORD_DOMAIN: Final = b"restante-prekey-record-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeyRecord:
    blinded: BlindedKey
    period: int
    issued_at_ms: int
    sealed: bytes
    signature: bytes = UNSIGNED

    def __post_init__(self) -> None:
        blinded_key(self.blinded)
        check_number(self.period, "period", high=MAX_PERIOD)
        check_time(self.issued_at_ms, "issued_at")
        if len(self.sealed) > MAX_SEALED_BUNDLE_BYTES:
            raise TooLarge(
                "the sealed bundle of a prekey record",
                size_bytes=len(self.sealed),
                limit_bytes=MAX_SEALED_BUNDLE_BYTES,
            )
        if not self.sealed:
            raise Malformed("the sealed bundle of a prekey record is missing")
        check_signature(self.signature)


def record_to_sign(record: PrekeyRecord) -> bytes:
    """Return the bytes that the signature covers."""
    return _RECORD_DOMAIN + _unsigned(record)


def encode_record(record: PrekeyRecord) -> bytes:
    return _unsigned(record) + signature_to_encode(record.signature, "a prekey record")


def decode_record(raw: bytes) -> PrekeyRecord:
    if len(raw) > MAX_RECORD_BYTES:
        raise TooLarge("a prekey record", size_bytes=len(raw), limit_bytes=MAX_RECORD_BYTES)
    if len(raw) < MIN_RECORD_BYTES:
        raise Malformed(f"a prekey record has at least {MIN_RECORD_BYTES} bytes, not {len(raw)}")
    version, blinded, period, issued_at_ms = _HEAD.unpack_from(raw)
    if version != RECORD_VERSION:
        raise Malformed(f"only version {RECORD_VERSION} of a prekey record is known, not {version}")
    return PrekeyRecord(
        blinded=BlindedKey(blinded),
        period=period,
        issued_at_ms=issued_at_ms,
        sealed=raw[_HEAD.size : -SIGNATURE_BYTES],
        signature=raw[-SIGNATURE_BYTES:],
    )


def _unsigned(record: PrekeyRecord) -> bytes:
    return _HEAD.pack(RECORD_VERSION, record.blinded, record.period, record.issued_at_ms) + record.sealed
