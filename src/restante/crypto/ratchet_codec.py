"""Encode and decode a ratchet state for the local disk, where it is stored sealed (SPEC 8.2, 8.6).

The first byte is the version. The seal around the state (`storage_seal`) detects changes, so values are not checked
further.
"""

import struct
from itertools import groupby
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from restante.crypto.format_version import check_version
from restante.crypto.key_derivation import KEY_BYTES
from restante.crypto.ratchet import MAX_SKIPPED_KEYS, NONE_YET, RatchetState, SkippedKey
from restante.model.errors import Malformed
from restante.model.ids import exactly

RATCHET_VERSION: Final = 1
_OPTIONAL_KEYS: Final = (1, 2, 4, 8)
"""Flags: own ratchet key, peer's ratchet key, sending chain, receiving chain."""

_HEAD: Final = struct.Struct(">BBB")
_FIXED: Final = struct.Struct(">32sIIIH")
_RUN: Final = struct.Struct(">32sH")
_SKIPPED: Final = struct.Struct(">I32sQ")


def encode_ratchet(state: RatchetState) -> bytes:
    own = NONE_YET if state.own_key is None else state.own_key.private_bytes_raw()
    optional = (own, state.their_public, state.sending_key, state.receiving_key)
    flags = sum(flag for flag, key in zip(_OPTIONAL_KEYS, optional, strict=True) if key)
    parts = [
        _HEAD.pack(RATCHET_VERSION, flags, len(state.context)),
        state.context,
        _FIXED.pack(state.root_key, state.sent, state.sent_before, state.received, len(state.skipped)),
        *optional,
    ]
    # Keys skipped under one ratchet key are adjacent, so it is written once. Their order is their age.
    for their_public, group in groupby(state.skipped.items(), key=lambda item: item[0][:KEY_BYTES]):
        run = list(group)
        parts.append(_RUN.pack(their_public, len(run)))
        parts.extend(
            _SKIPPED.pack(int.from_bytes(name[KEY_BYTES:], "big"), kept.seed, kept.stored_at_ms) for name, kept in run
        )
    return b"".join(parts)


def decode_ratchet(raw: bytes) -> RatchetState:
    """Decode a state. Raise for a newer version and for other bytes."""
    check_version(raw, "ratchet state", newest=RATCHET_VERSION)
    try:
        return _decode_v1(raw)
    except struct.error:
        raise Malformed("a ratchet state is cut short") from None


def _decode_v1(raw: bytes) -> RatchetState:
    _, flags, context_bytes = _HEAD.unpack_from(raw)
    if flags > sum(_OPTIONAL_KEYS):
        raise Malformed("a ratchet state has flags that are not known")
    at = _HEAD.size + context_bytes
    context = raw[_HEAD.size : at]
    root_key, sent, sent_before, received, skipped = _FIXED.unpack_from(raw, at)
    at += _FIXED.size
    optional = []
    for flag in _OPTIONAL_KEYS:
        size = KEY_BYTES if flags & flag else 0
        optional.append(exactly(raw[at : at + size], size, "a key of a ratchet state") if size else NONE_YET)
        at += size
    private, their_public, sending_key, receiving_key = optional
    own = X25519PrivateKey.from_private_bytes(private) if private else None
    return RatchetState(
        context,
        root_key,
        own,
        NONE_YET if own is None else own.public_key().public_bytes_raw(),
        their_public,
        sending_key,
        sent,
        sent_before,
        receiving_key,
        received,
        _decode_skipped(raw, at, skipped),
    )


def _decode_skipped(raw: bytes, at: int, expected: int) -> dict[bytes, SkippedKey]:
    skipped: dict[bytes, SkippedKey] = {}
    while at < len(raw):
        their_public, count = _RUN.unpack_from(raw, at)
        at += _RUN.size
        if len(skipped) + count > MAX_SKIPPED_KEYS or count == 0:
            raise Malformed(f"a ratchet state has at most {MAX_SKIPPED_KEYS} skipped keys, in runs of at least one")
        for _ in range(count):
            number, key, stored_at_ms = _SKIPPED.unpack_from(raw, at)
            at += _SKIPPED.size
            skipped[their_public + number.to_bytes(4, "big")] = SkippedKey(key, stored_at_ms)
    if len(skipped) != expected:
        raise Malformed(f"a ratchet state should have {expected} skipped keys, but has {len(skipped)}")
    return skipped
