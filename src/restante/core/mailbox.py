"""What a relay does with a Put, before it touches its store (SPEC 6.1, 6.6, 6.7)."""

from dataclasses import dataclass

from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import Refused, StorageQuota, admission
from restante.wire.envelope import Envelope, payload_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one inbox already holds."""

    blobs: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Store the envelope under this key until then."""

    inbox_key: InboxKey
    payload_hash: PayloadHash
    expires_at_ms: int


def judge_put(envelope: Envelope, *, usage: Usage, quota: StorageQuota, now_ms: int) -> Keep | Refused:
    """Keep it, or refuse it with a reason and whether trying again makes sense. Never deduplicates."""
    refused = admission(
        quota,
        held_blobs=usage.blobs,
        held_bytes=usage.total_bytes,
        blob_bytes=len(envelope.sealed),
        expires_at_ms=envelope.expires_at_ms,
        now_ms=now_ms,
    )
    return refused or Keep(
        inbox_key=envelope.inbox_key,
        payload_hash=payload_hash(envelope.sealed),
        expires_at_ms=envelope.expires_at_ms,
    )
