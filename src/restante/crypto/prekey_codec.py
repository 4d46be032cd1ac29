"""Encode and decode a prekey store for the local disk, where it is stored sealed (SPEC 8.1, 8.6). Versioned."""

import struct
from typing import Final

from restante.crypto.format_version import check_version
from restante.crypto.prekeys import KEM_SEED_BYTES, ONE_TIME_PREKEYS, PRIVATE_BYTES, PrekeyStore, SignedPrekey
from restante.model.errors import Malformed
from restante.model.ids import exactly

PREKEYS_VERSION: Final = 1
_HEAD: Final = struct.Struct(">BIBH")
_SIGNED: Final = struct.Struct(f">IQBQ{PRIVATE_BYTES}s{KEM_SEED_BYTES}s")
_ONE_TIME: Final = struct.Struct(f">I{PRIVATE_BYTES}s")


def encode_prekeys(store: PrekeyStore) -> bytes:
    signed = (
        _SIGNED.pack(
            prekey.prekey_id,
            prekey.created_at_ms,
            prekey.replaced_at_ms is not None,
            prekey.replaced_at_ms or 0,
            prekey.private,
            prekey.kem_seed,
        )
        for prekey in store.signed
    )
    one_time = (_ONE_TIME.pack(prekey_id, private) for prekey_id, private in sorted(store.one_time.items()))
    head = _HEAD.pack(PREKEYS_VERSION, store.next_id, len(store.signed), len(store.one_time))
    return head + b"".join(signed) + b"".join(one_time)


def decode_prekeys(raw: bytes) -> PrekeyStore:
    """Decode a prekey store. Raise for a newer version and for other bytes."""
    check_version(raw, "prekey store", newest=PREKEYS_VERSION)
    if len(raw) < _HEAD.size:
        raise Malformed("a prekey store is cut short")
    _, next_id, signed_count, one_time_count = _HEAD.unpack_from(raw)
    if one_time_count > ONE_TIME_PREKEYS:
        raise Malformed(f"a prekey store keeps at most {ONE_TIME_PREKEYS} one-time prekeys")
    one_time_at = _HEAD.size + signed_count * _SIGNED.size
    exactly(raw, one_time_at + one_time_count * _ONE_TIME.size, "prekey store")
    signed = tuple(
        SignedPrekey(
            prekey_id=prekey_id,
            created_at_ms=created_at_ms,
            replaced_at_ms=replaced_at_ms if is_replaced else None,
            private=private,
            kem_seed=kem_seed,
        )
        for prekey_id, created_at_ms, is_replaced, replaced_at_ms, private, kem_seed in _SIGNED.iter_unpack(
            raw[_HEAD.size : one_time_at]
        )
    )
    return PrekeyStore(next_id=next_id, signed=signed, one_time=dict(_ONE_TIME.iter_unpack(raw[one_time_at:])))
