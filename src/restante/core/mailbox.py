"""What a relay does with a Put, before it touches its store (SPEC 6.1, 6.6, 6.7)."""

from dataclasses import dataclass
from typing import NamedTuple

from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import Refused, StorageQuota, unfit
from restante.wire.envelope import payload_hash
from restante.wire.envelope_view import view_envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one inbox already holds, in whole envelopes."""

    blobs: int
    total_bytes: int


class Keep(NamedTuple):
    """Store the envelope under this key until then, if there is room. A tuple: thousands are made a second."""

    inbox_key: InboxKey
    payload_hash: PayloadHash
    expires_at_ms: int
    envelope: bytes


def judge_put(raw: bytes, *, quota: StorageQuota, now_ms: int) -> Keep | Refused:
    """Keep it if there is room, or refuse it for good. Whether there is room, only the store knows.

    Bytes that are no envelope raise `Malformed` or `TooLarge`.
    """
    inbox_key, expires_at_ms, sealed = view_envelope(raw)
    refused = unfit(quota, blob_bytes=len(sealed), expires_at_ms=expires_at_ms, now_ms=now_ms)
    return refused or Keep(inbox_key, payload_hash(sealed), expires_at_ms, raw)
