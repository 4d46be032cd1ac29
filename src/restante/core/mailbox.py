"""What a relay does with a Put, before it touches its store (SPEC 6.1, 6.6, 6.7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from restante.model.errors import RestanteError
from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import MailboxQuota, Refusal, check_envelope, fitting_bounds
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.envelope_parser import view_envelope


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


def judge_put(raw: bytes, *, quota: MailboxQuota, now_ms: int) -> Keep | Refusal:
    """Keep it if there is room, or refuse it for good. Whether there is room, only the store knows.

    Bytes that are no envelope raise `Malformed` or `TooLarge`.
    """
    inbox_key, expires_at_ms, sealed = view_envelope(raw)
    refused = check_envelope(quota, blob_bytes=len(sealed), expires_at_ms=expires_at_ms, now_ms=now_ms)
    return refused or Keep(inbox_key, hash_sealed_bytes(sealed), expires_at_ms, raw)


def judge_puts(raws: Sequence[bytes], *, quota: MailboxQuota, now_ms: int) -> tuple[list[Keep], dict[int, Refusal]]:
    """What `judge_put` says of each: those to keep in their order, and by their places those refused.

    Bytes that are no envelope are refused for good as well.
    """
    max_bytes, earliest_ms, latest_ms = fitting_bounds(quota, now_ms=now_ms)
    keeps: list[Keep] = []
    refusals: dict[int, Refusal] = {}
    for place, raw in enumerate(raws):
        try:
            inbox_key, expires_at_ms, sealed = view_envelope(raw)
            if len(sealed) <= max_bytes and earliest_ms <= expires_at_ms <= latest_ms:  # the usual case
                # Not by the class's constructor, which costs more than all the rest of the line but the hash.
                keeps.append(tuple.__new__(Keep, (inbox_key, hash_sealed_bytes(sealed), expires_at_ms, raw)))
                continue
            verdict = judge_put(raw, quota=quota, now_ms=now_ms)
        except RestanteError as error:
            verdict = Refusal(permanent=True, code=error.code, text=str(error))
        if isinstance(verdict, Refusal):
            refusals[place] = verdict
        else:
            keeps.append(verdict)
    return keeps, refusals
