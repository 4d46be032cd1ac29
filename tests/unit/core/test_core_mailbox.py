"""core/mailbox: what a relay keeps, up to the last blob and byte of an inbox."""

import hashlib
from dataclasses import replace

import pytest

from clauses import clause
from restante.core.mailbox import Keep, Usage, judge_put
from restante.model.ids import InboxKey, PayloadHash
from restante.policy.quota import Refused, StorageQuota
from restante.wire.envelope import Envelope

HOUR_MS = 3_600_000
NOW_MS = 500_000 * HOUR_MS
QUOTA = StorageQuota()
EMPTY = Usage(blobs=0, total_bytes=0)
ENVELOPE = Envelope(inbox_key=InboxKey(b"\x22" * 32), expires_at_ms=NOW_MS + 48 * HOUR_MS, sealed=b"s" * 1_000)
LARGEST = replace(ENVELOPE, sealed=bytes(262_144))


def judged(envelope: Envelope = ENVELOPE, *, usage: Usage = EMPTY, quota: StorageQuota = QUOTA) -> Keep | Refused:
    return judge_put(envelope, usage=usage, quota=quota, now_ms=NOW_MS)


def refusal(verdict: Keep | Refused) -> tuple[bool, str] | None:
    return (verdict.permanent, verdict.code.value) if isinstance(verdict, Refused) else None


def test_what_is_kept_is_kept_for_its_inbox_under_its_hash_until_its_expiry() -> None:
    assert judged() == Keep(
        inbox_key=InboxKey(b"\x22" * 32),
        payload_hash=PayloadHash(hashlib.sha256(b"s" * 1_000).digest()),
        expires_at_ms=NOW_MS + 48 * HOUR_MS,
    )


@clause("6.6", "6.7")
def test_the_ten_thousandth_blob_is_kept_and_the_next_refused_for_now() -> None:
    assert refusal(judged(usage=Usage(blobs=9_999, total_bytes=0))) is None
    assert refusal(judged(usage=Usage(blobs=10_000, total_bytes=0))) == (False, "E004")


@clause("6.6", "6.7")
def test_the_last_of_100_mb_is_kept_and_one_byte_more_refused_for_now() -> None:
    assert refusal(judged(usage=Usage(blobs=1, total_bytes=100_000_000 - 1_000))) is None
    assert refusal(judged(usage=Usage(blobs=1, total_bytes=100_000_000 - 999))) == (False, "E004")


@clause("6.6", "6.7")
def test_a_blob_over_the_size_limit_is_refused_for_good_even_when_the_inbox_is_full() -> None:
    assert refusal(judged(LARGEST)) is None
    small = StorageQuota(max_blob_bytes=262_143)
    assert refusal(judged(LARGEST, quota=small)) == (True, "E006")
    assert refusal(judged(LARGEST, quota=small, usage=Usage(blobs=10_000, total_bytes=0))) == (True, "E006")


@clause("6.6", "6.7")
@pytest.mark.parametrize(
    ("life_h", "expected"), [(0, (True, "E102")), (1, None), (720, None), (721, None), (722, (True, "E102"))]
)
def test_life_left_must_be_between_an_hour_and_thirty_days(life_h: int, expected: tuple[bool, str] | None) -> None:
    # 721: a sender whose clock runs up to five minutes ahead, rounded up to its next hour, is not refused.
    assert refusal(judged(replace(ENVELOPE, expires_at_ms=NOW_MS + life_h * HOUR_MS))) == expected


def test_the_same_envelope_put_again_is_kept_again() -> None:
    assert judged() == judged(usage=Usage(blobs=1, total_bytes=1_000))


@pytest.mark.parametrize("left", [0, 1])
def test_a_configured_quota_is_the_one_that_counts(left: int) -> None:
    tight = StorageQuota(max_blobs=100, max_bytes=1_000_000)
    held = Usage(blobs=100 - left, total_bytes=1_000_000 - left * 1_000)
    assert refusal(judged(usage=held, quota=tight)) == (None if left else (False, "E004"))
