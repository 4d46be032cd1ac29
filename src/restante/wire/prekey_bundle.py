"""Encode and decode a prekey bundle (SPEC 7.6, 8.1): fixed fields, the one-time prekeys, one signature over all.

A bundle is built unsigned, signed over `bundle_to_sign`, completed with `dataclasses.replace` and then encoded.
core/signed_bundles verifies the signature and crypto/prekeys the keys.
"""

import struct
from typing import Final

from restante.model.contact_card import ContactCard
from restante.model.errors import Malformed, TooLarge
from restante.model.ids import Address, exactly
from restante.model.prekey_bundle import OneTimePrekey, PrekeyBundle
from restante.wire.field_checks import (
    MAX_U32,
    SIGNATURE_BYTES,
    check_number,
    check_time,
    signature_to_encode,
)

BUNDLE_VERSION: Final = 1
SEALING_KEY_BYTES: Final = 1216
X25519_BYTES: Final = 32
KEM_PREKEY_BYTES: Final = 1184
MAX_ONE_TIME: Final = 100  # SPEC 8.1

_FIXED: Final = struct.Struct(
    f">B32s{SEALING_KEY_BYTES}s{X25519_BYTES}s{SIGNATURE_BYTES}sQIQ{X25519_BYTES}s{KEM_PREKEY_BYTES}sH"
)
_ONE_TIME: Final = struct.Struct(f">I{X25519_BYTES}s")
MAX_BUNDLE_BYTES: Final = _FIXED.size + MAX_ONE_TIME * _ONE_TIME.size + SIGNATURE_BYTES
_BUNDLE_DOMAIN: Final = b"restante-bundle-v1"


def bundle_to_sign(bundle: PrekeyBundle) -> bytes:
    """Return the bytes that the signature of a bundle covers."""
    return _BUNDLE_DOMAIN + _unsigned(bundle)


def encode_bundle(bundle: PrekeyBundle) -> bytes:
    return _unsigned(bundle) + signature_to_encode(bundle.signature, "a prekey bundle")


def decode_bundle(raw: bytes) -> PrekeyBundle:
    if len(raw) > MAX_BUNDLE_BYTES:
        raise TooLarge("the prekey bundle", size_bytes=len(raw), limit_bytes=MAX_BUNDLE_BYTES)
    if len(raw) < _FIXED.size + SIGNATURE_BYTES:
        raise Malformed(f"a prekey bundle has at least {_FIXED.size + SIGNATURE_BYTES} bytes, not {len(raw)}")
    version, owner, sealing, agreement, card_signature, issued_at_ms, prekey_id, created_at_ms, prekey, kem, count = (
        _FIXED.unpack_from(raw)
    )
    if version != BUNDLE_VERSION:
        raise Malformed(f"only version {BUNDLE_VERSION} of a prekey bundle is known, not {version}")
    # Check the length before parsing: the peer chose the count.
    exactly(raw, _FIXED.size + count * _ONE_TIME.size + SIGNATURE_BYTES, f"a bundle of {count} one-time prekeys")
    bundle = PrekeyBundle(
        card=ContactCard(
            address=Address(owner), sealing_key=sealing, agreement_key=agreement, signature=card_signature
        ),
        issued_at_ms=issued_at_ms,
        prekey_id=prekey_id,
        prekey_created_at_ms=created_at_ms,
        prekey=prekey,
        kem_prekey=kem,
        one_time=tuple(
            OneTimePrekey(prekey_id=number, key=key)
            for number, key in _ONE_TIME.iter_unpack(raw[_FIXED.size : -SIGNATURE_BYTES])
        ),
        signature=raw[-SIGNATURE_BYTES:],
    )
    _check(bundle)
    return bundle


def _unsigned(bundle: PrekeyBundle) -> bytes:
    _check(bundle)
    card = bundle.card
    fixed = _FIXED.pack(
        BUNDLE_VERSION,
        exactly(card.address, 32, "address"),
        exactly(card.sealing_key, SEALING_KEY_BYTES, "sealing key"),
        exactly(card.agreement_key, X25519_BYTES, "agreement key"),
        exactly(card.signature, SIGNATURE_BYTES, "signature of the card"),
        bundle.issued_at_ms,
        bundle.prekey_id,
        bundle.prekey_created_at_ms,
        exactly(bundle.prekey, X25519_BYTES, "prekey"),
        exactly(bundle.kem_prekey, KEM_PREKEY_BYTES, "KEM prekey"),
        len(bundle.one_time),
    )
    one_time = (_ONE_TIME.pack(each.prekey_id, exactly(each.key, X25519_BYTES, "prekey")) for each in bundle.one_time)
    return fixed + b"".join(one_time)


def _check(bundle: PrekeyBundle) -> None:
    check_time(bundle.issued_at_ms, "issued_at")
    check_time(bundle.prekey_created_at_ms, "created_at of the prekey")
    check_number(bundle.prekey_id, "prekey id", high=MAX_U32)
    check_number(len(bundle.one_time), "number of one-time prekeys", high=MAX_ONE_TIME)
    last = -1
    for each in bundle.one_time:
        check_number(each.prekey_id, "id of a one-time prekey", low=last + 1, high=MAX_U32)
        last = each.prekey_id
