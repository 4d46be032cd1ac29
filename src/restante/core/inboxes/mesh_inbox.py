"""Inboxes in the mesh: the keys of one time bucket, and the envelope that is stored under them (SPEC 7.2)."""

from functools import lru_cache
from typing import NamedTuple

from restante.crypto.blinded_keys import NO_SECRET, blind_address, in_period
from restante.model.ids import Address, BlindedKey, InboxKey
from restante.model.kinds import KIND_RULES, Kind
from restante.policy.quota import storage_expiry_ms
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.mesh_keys import mesh_inbox_key


class BucketKeys(NamedTuple):
    """What names an inbox in one time bucket: the key that its owner signs with, and the key that nodes store under."""

    blinded: BlindedKey
    inbox_key: InboxKey


def bucket_keys(owner: Address, bucket: int, access_secret: bytes = NO_SECRET) -> BucketKeys:
    """Return the keys of an inbox for one time bucket."""
    return _bucket_keys(owner, bucket, access_secret)


@lru_cache(maxsize=4_096)  # every put needs one; a multiplication on the curve takes 0.1 ms
def _bucket_keys(owner: Address, bucket: int, access_secret: bytes) -> BucketKeys:
    blinded = blind_address(owner, place=in_period(bucket), access_secret=access_secret)
    return BucketKeys(blinded, mesh_inbox_key(blinded, bucket))


def build_mesh_envelope(sealed: bytes, *, inbox_key: InboxKey, kind: Kind, expires_at_ms: int, now_ms: int) -> bytes:
    """Return inbox key, rounded expiry and sealed bytes as one envelope, built for each attempt and bucket."""
    expiry_ms = storage_expiry_ms(ttl_type=KIND_RULES[kind].ttl_type, expires_at_ms=expires_at_ms, now_ms=now_ms)
    return encode_envelope(Envelope(inbox_key=inbox_key, expires_at_ms=expiry_ms, sealed=sealed))
