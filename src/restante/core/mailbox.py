"""What a node decides about a put before it touches its store, and about a blob before it serves it (SPEC 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from restante.model.errors import RestanteError
from restante.model.ids import InboxKey, PayloadHash
from restante.model.sources import UNKNOWN_SOURCE, Source
from restante.policy.quota import MailboxQuota, Refusal, check_envelope, latest_expiry_ms
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import parse_envelope, parse_put


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one mailbox holds, in whole envelopes."""

    blobs: int
    total_bytes: int


class Keep(NamedTuple):
    """Store this envelope, if there is space. A tuple, because a node makes thousands a second."""

    inbox_key: InboxKey
    payload_hash: PayloadHash
    expires_at_ms: int
    envelope: bytes
    source: Source = UNKNOWN_SOURCE
    leaf: bytes = b""
    """What a storage receipt for it covers: the envelope as it came, with the expiry that it names (SPEC 10.2)."""


def check_put(raw: bytes, *, quota: MailboxQuota, now_ms: int, source: Source = UNKNOWN_SOURCE) -> Keep | Refusal:
    """Return what to store, or why the blob is refused whatever space there is.

    An expiry beyond the longest TTL is cut to it (SPEC 6.6). Bytes that are no envelope raise `Malformed` or
    `TooLarge`.
    """
    inbox_key, expires_at_ms, sealed_bytes, hashed, leaf = parse_put(raw)
    refused = check_envelope(quota, blob_bytes=sealed_bytes, expires_at_ms=expires_at_ms, now_ms=now_ms)
    kept_until_ms = min(expires_at_ms, latest_expiry_ms(quota, now_ms=now_ms))
    return refused or Keep(inbox_key, hashed, kept_until_ms, raw, source, leaf)


def check_puts(
    raws: Sequence[bytes], *, quota: MailboxQuota, now_ms: int, source: Source = UNKNOWN_SOURCE
) -> tuple[list[Keep], dict[int, Refusal]]:
    """Judge many puts of one source: return those to store in their order, and the refusals by position.

    Bytes that are no envelope are refused permanently.
    """
    max_bytes, earliest_ms = quota.max_blob_bytes, now_ms + quota.min_ttl_ms
    latest_ms = latest_expiry_ms(quota, now_ms=now_ms)
    keeps: list[Keep] = []
    refusals: dict[int, Refusal] = {}
    new = tuple.__new__  # the constructor of Keep costs as much as a hash
    for place, raw in enumerate(raws):
        try:
            inbox_key, expires_at_ms, sealed_bytes, hashed, leaf = parse_put(raw)
            if sealed_bytes <= max_bytes and earliest_ms <= expires_at_ms <= latest_ms:  # the usual case
                keeps.append(new(Keep, (inbox_key, hashed, expires_at_ms, raw, source, leaf)))
                continue
            verdict = check_put(raw, quota=quota, now_ms=now_ms, source=source)
        except RestanteError as error:
            verdict = Refusal(permanent=True, code=error.code, text=str(error))
        if isinstance(verdict, Refusal):
            refusals[place] = verdict
        else:
            keeps.append(verdict)
    return keeps, refusals


def is_intact(envelope: bytes, *, inbox_key: InboxKey, payload_hash: PayloadHash) -> bool:
    """Return whether a stored envelope still is what was put (SPEC 6.3)."""
    try:
        found_key, _, sealed = parse_envelope(envelope)
    except RestanteError:
        return False
    return found_key == inbox_key and hash_sealed_bytes(sealed) == payload_hash
