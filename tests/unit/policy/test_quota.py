"""policy/quota: what a storing node takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.kinds import TtlType
from restante.policy.quota import (
    MailboxQuota,
    Refusal,
    check_envelope,
    check_share_of_mailbox,
    check_share_of_total,
    check_space,
    is_mailbox_scarce,
    is_total_scarce,
    latest_expiry_ms,
    room_in_mailbox,
    room_in_total,
    storage_expiry_ms,
)
from support.spec.clauses import clause

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FULL_HOUR_MS = 472_222 * HOUR_MS
NOW_MS = FULL_HOUR_MS + HOUR_MS // 2
QUOTA = MailboxQuota()

moments = st.integers(0, 2**50)


def put(
    *,
    held_blobs: int = 0,
    held_bytes: int = 0,
    blob_bytes: int = 1_024,
    expires_at_ms: int = NOW_MS + DAY_MS,
    now_ms: int = NOW_MS,
) -> tuple[bool, Code] | None:
    refused = check_envelope(QUOTA, blob_bytes=blob_bytes, expires_at_ms=expires_at_ms, now_ms=now_ms) or check_space(
        QUOTA, held_blobs=held_blobs, held_bytes=held_bytes, total_bytes=held_bytes, more_bytes=blob_bytes
    )
    return None if refused is None else (refused.permanent, refused.code)


@clause("6.6")
def test_the_ten_thousandth_blob_is_taken_and_the_next_refused_for_now() -> None:
    assert put(held_blobs=9_999) is None
    assert put(held_blobs=10_000) == (False, Code.STORAGE_FAILED)


@clause("6.6")
def test_a_hundred_million_bytes_are_taken_and_one_more_refused_for_now() -> None:
    assert put(held_bytes=99_998_976) is None
    assert put(held_bytes=99_998_977) == (False, Code.STORAGE_FAILED)


@clause("6.6", "6.7")
def test_a_blob_of_256_kib_is_taken_and_a_larger_one_refused_for_good() -> None:
    assert put(blob_bytes=262_144) is None
    assert put(blob_bytes=262_145) == (True, Code.MESSAGE_TOO_LARGE)


@clause("6.6", "6.10")
def test_a_message_with_less_than_an_hour_to_live_is_refused_for_now() -> None:
    assert put(expires_at_ms=NOW_MS + HOUR_MS) is None
    assert put(expires_at_ms=NOW_MS + HOUR_MS - 1) == (False, Code.OUT_OF_RANGE)
    assert put(expires_at_ms=NOW_MS - DAY_MS) == (False, Code.OUT_OF_RANGE)


@clause("6.6")
def test_an_expiry_beyond_thirty_days_is_taken_and_cut() -> None:
    assert put(expires_at_ms=NOW_MS + 365 * DAY_MS) is None
    assert latest_expiry_ms(QUOTA, now_ms=NOW_MS) == NOW_MS + 30 * DAY_MS


@clause("6.10")
@given(expires=moments, now=moments)
def test_no_refusal_that_depends_on_a_clock_is_permanent(expires: int, now: int) -> None:
    refused = check_envelope(QUOTA, blob_bytes=1_024, expires_at_ms=expires, now_ms=now)
    assert refused is None or not refused.permanent


@clause("6.6")
def test_a_source_counts_only_once_more_than_half_is_used() -> None:
    half = QUOTA.total_bytes // 2
    assert (is_total_scarce(QUOTA, half), is_total_scarce(QUOTA, half + 1)) == (False, True)
    assert not is_mailbox_scarce(QUOTA, 5_000, 50_000_000)
    assert is_mailbox_scarce(QUOTA, 5_001, 0)
    assert is_mailbox_scarce(QUOTA, 0, 50_000_001)


@clause("6.6")
def test_a_source_holds_a_tenth_of_the_total_and_a_quarter_of_a_mailbox() -> None:
    tenth, quarter = QUOTA.total_bytes // 10, QUOTA.max_bytes // 4
    assert check_share_of_total(QUOTA, source_bytes=tenth - 10, more_bytes=10) is None
    over = check_share_of_total(QUOTA, source_bytes=tenth - 10, more_bytes=11)
    assert over is not None
    assert (over.permanent, over.code) == (False, Code.STORAGE_FAILED)
    assert check_share_of_mailbox(QUOTA, source_blobs=2_499, source_bytes=quarter - 10, more_bytes=10) is None
    assert check_share_of_mailbox(QUOTA, source_blobs=2_500, source_bytes=0, more_bytes=10) is not None
    assert check_share_of_mailbox(QUOTA, source_blobs=0, source_bytes=quarter, more_bytes=1) is not None


@clause("6.6")
def test_a_limited_source_hears_exactly_what_it_may_still_store() -> None:
    total, tenth = QUOTA.total_bytes, QUOTA.total_bytes // 10
    assert room_in_total(QUOTA, total_bytes=total // 2, source_bytes=tenth) is None
    assert room_in_total(QUOTA, total_bytes=total // 2 + 1, source_bytes=tenth - 10) == 10
    assert room_in_total(QUOTA, total_bytes=total // 2 + 1, source_bytes=2 * tenth) == 0
    assert room_in_total(QUOTA, total_bytes=total - 7, source_bytes=0) == 7


@clause("6.6")
@given(st.integers(0, 10_000), st.integers(0, 2_600), st.integers(1, 40_000))
def test_the_room_in_a_mailbox_is_what_its_checks_let_through(held: int, own: int, blob_bytes: int) -> None:
    own = min(own, held)
    of = {"held_blobs": held, "held_bytes": held * blob_bytes}
    if of["held_bytes"] > QUOTA.max_bytes:
        return
    room = room_in_mailbox(QUOTA, **of, source_blobs=own, source_bytes=own * blob_bytes, blob_bytes=blob_bytes)
    if room is None:
        assert not is_mailbox_scarce(QUOTA, **of)
        return
    fitting = 0
    while (
        check_share_of_mailbox(
            QUOTA,
            source_blobs=own + fitting,
            source_bytes=(own + fitting) * blob_bytes,
            more_bytes=blob_bytes,
        )
        is None
        and check_space(
            QUOTA,
            held_blobs=held + fitting,
            held_bytes=(held + fitting) * blob_bytes,
            total_bytes=0,
            more_bytes=blob_bytes,
        )
        is None
    ):
        fitting += 1
    assert room // blob_bytes == fitting


@clause("6.6", "6.7")
def test_what_can_never_be_taken_is_refused_for_good_even_by_a_full_mailbox() -> None:
    assert put(held_blobs=10_000, blob_bytes=262_145) == (True, Code.MESSAGE_TOO_LARGE)


@clause("6.7")
def test_a_refusal_says_in_words_what_is_allowed() -> None:
    refused = check_space(QUOTA, held_blobs=10_000, held_bytes=0, total_bytes=0, more_bytes=1)
    assert refused == Refusal(
        permanent=False,
        code=Code.STORAGE_FAILED,
        text="the mailbox is full: at most 10000 blobs and 100000000 bytes",
    )


@clause("6.6")
@pytest.mark.parametrize(
    ("ttl_type", "expires_at_ms", "asked_ms"),
    [
        (TtlType.ABSOLUTE, FULL_HOUR_MS + 2 * HOUR_MS, FULL_HOUR_MS + 2 * HOUR_MS),
        (TtlType.ABSOLUTE, FULL_HOUR_MS + 2 * HOUR_MS + 1, FULL_HOUR_MS + 3 * HOUR_MS),
        (TtlType.ABSOLUTE, NOW_MS + 90 * DAY_MS, FULL_HOUR_MS + HOUR_MS + 30 * DAY_MS),
        (TtlType.RELATIVE, NOW_MS + 5_000, FULL_HOUR_MS + HOUR_MS + 30 * DAY_MS),
    ],
)
def test_an_envelope_asks_for_its_own_expiry_or_thirty_days_up_to_the_whole_hour(
    ttl_type: TtlType, expires_at_ms: int, asked_ms: int
) -> None:
    assert storage_expiry_ms(ttl_type=ttl_type, expires_at_ms=expires_at_ms, now_ms=NOW_MS) == asked_ms


@clause("6.6")
@given(ttl_type=st.sampled_from(TtlType), now=moments, life=st.integers(HOUR_MS, 90 * DAY_MS))
def test_an_asked_expiry_is_a_whole_hour_and_never_cuts_a_storable_life_short(
    ttl_type: TtlType, now: int, life: int
) -> None:
    asked = storage_expiry_ms(ttl_type=ttl_type, expires_at_ms=now + life, now_ms=now)
    assert asked % HOUR_MS == 0
    shortest = 30 * DAY_MS if ttl_type is TtlType.RELATIVE else min(life, 30 * DAY_MS)
    assert shortest <= asked - now < shortest + HOUR_MS


@clause("6.6")
@given(
    ttl_type=st.sampled_from(TtlType),
    now=moments,
    life=st.integers(2 * HOUR_MS, 90 * DAY_MS),
    node_is_ahead_ms=st.integers(-300_000, 300_000),
)
def test_a_node_whose_clock_is_five_minutes_off_takes_what_a_sender_asks(
    ttl_type: TtlType, now: int, life: int, node_is_ahead_ms: int
) -> None:
    asked = storage_expiry_ms(ttl_type=ttl_type, expires_at_ms=now + life, now_ms=now)
    assert put(expires_at_ms=asked, now_ms=now + node_is_ahead_ms) is None
