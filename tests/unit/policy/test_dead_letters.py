"""policy/dead_letters: how long they are kept and when they are tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.kinds import TtlType
from restante.model.states import DeadCategory, DeadReason
from restante.policy.dead_letters import (
    DeadLetterRetention,
    category_of,
    expires_at_ms,
    keeps_payload,
    next_auto_retry_ms,
    recovered_expiry_ms,
)
from support.spec.clauses import clause

MOVED_MS = 1_700_000_000_000
DAY_MS = 86_400_000
RETENTION = DeadLetterRetention()


def next_retry(
    category: DeadCategory = DeadCategory.RETRIABLE,
    *,
    last_retry_at_ms: int | None = None,
    letter_expires_at_ms: int = MOVED_MS + 7 * DAY_MS,
    message_expires_at_ms: int = MOVED_MS + 30 * DAY_MS,
) -> int | None:
    return next_auto_retry_ms(
        RETENTION,
        category=category,
        moved_at_ms=MOVED_MS,
        last_retry_at_ms=last_retry_at_ms,
        letter_expires_at_ms=letter_expires_at_ms,
        message_expires_at_ms=message_expires_at_ms,
    )


@clause("5.2", "2.2")
def test_every_reason_has_its_category() -> None:
    assert {reason.value: category_of(reason).value for reason in DeadReason} == {
        "attempts_exhausted": "retriable",
        "permanent_failure": "permanent",
        "queue_time_exceeded": "retriable",
        "cancelled": "permanent",
        "expired": "expired",
    }


@clause("5.2")
def test_what_expired_leaves_a_tombstone_without_payload() -> None:
    assert not keeps_payload(DeadCategory.EXPIRED)
    assert keeps_payload(DeadCategory.RETRIABLE)
    assert keeps_payload(DeadCategory.PERMANENT)


@clause("5.3")
@pytest.mark.parametrize(
    ("category", "days"),
    [(DeadCategory.RETRIABLE, 9), (DeadCategory.PERMANENT, 30), (DeadCategory.EXPIRED, 1)],
)
def test_a_letter_is_kept_as_long_as_its_category_says(category: DeadCategory, days: int) -> None:
    assert expires_at_ms(
        RETENTION, category=category, moved_at_ms=MOVED_MS, message_expires_at_ms=MOVED_MS + 9 * DAY_MS
    ) == (MOVED_MS + days * DAY_MS)


@clause("5.3")
def test_a_retriable_letter_is_tried_once_a_day_until_it_is_deleted() -> None:
    tried: list[int | None] = [next_retry()]
    for _ in range(6):
        tried.append(next_retry(last_retry_at_ms=tried[-1]))
    assert tried == [*(MOVED_MS + day * DAY_MS for day in range(1, 7)), None]


@clause("5.3")
@pytest.mark.parametrize("category", [DeadCategory.PERMANENT, DeadCategory.EXPIRED])
def test_nothing_but_a_retriable_letter_is_tried_by_itself(category: DeadCategory) -> None:
    assert next_retry(category) is None


@clause("5.3")
def test_a_letter_whose_message_will_have_expired_is_not_tried_again() -> None:
    assert next_retry(message_expires_at_ms=MOVED_MS + DAY_MS + 1) == MOVED_MS + DAY_MS
    assert next_retry(message_expires_at_ms=MOVED_MS + DAY_MS) is None


@clause("5.3")
@given(last=st.none() | st.integers(MOVED_MS - 30 * DAY_MS, MOVED_MS + 30 * DAY_MS))
def test_two_automatic_retries_are_never_less_than_a_day_apart(last: int | None) -> None:
    at_ms = next_retry(last_retry_at_ms=last)
    assert at_ms is None or at_ms - max(MOVED_MS, last or 0) >= DAY_MS


@clause("5.4")
def test_a_recovered_message_lives_its_whole_ttl_again_unless_it_has_expired() -> None:
    now_ms = MOVED_MS + DAY_MS
    new_end = recovered_expiry_ms(ttl_s=3_600, expires_at_ms=now_ms + 1, now_ms=now_ms)
    assert new_end == now_ms + 3_600_000
    assert recovered_expiry_ms(ttl_s=3_600, expires_at_ms=now_ms, now_ms=now_ms) is None


def test_a_recovered_relative_message_is_carried_for_thirty_days() -> None:
    new_end = recovered_expiry_ms(ttl_s=5, expires_at_ms=MOVED_MS + 1, now_ms=MOVED_MS, ttl_type=TtlType.RELATIVE)
    assert new_end == MOVED_MS + 30 * DAY_MS
