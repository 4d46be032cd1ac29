"""policy/reorder_limits: how far apart messages may arrive, and how long a missing one is waited for."""

import pytest

from restante.model.ids import MAX_SEQUENCE
from restante.policy.reorder_limits import OrderLimits, gap_ends_at_ms, is_kept_open, is_too_far_ahead, retransmit_range

LIMITS = OrderLimits()
DAY_MS = 86_400_000


@pytest.mark.parametrize(("ahead", "too_far"), [(0, False), (1, False), (1_000, False), (1_001, True), (10**6, True)])
def test_a_thousand_ahead_of_the_highest_read_is_waited_for_and_no_more(ahead: int, too_far: bool) -> None:
    assert is_too_far_ahead(LIMITS, sequence=50 + ahead, highest_read=50) is too_far


def test_a_gap_ends_five_minutes_after_the_oldest_message_behind_it_came() -> None:
    assert gap_ends_at_ms(LIMITS, oldest_waiting_ms=1_000) == 301_000


@pytest.mark.parametrize(
    ("missing", "last"), [(0, 10), (5, 15), (MAX_SEQUENCE - 10, MAX_SEQUENCE), (MAX_SEQUENCE, MAX_SEQUENCE)]
)
def test_a_request_asks_for_the_missing_one_and_ten_more(missing: int, last: int) -> None:
    assert retransmit_range(missing) == (missing, last)


def test_a_skipped_message_may_come_for_thirty_days() -> None:
    assert is_kept_open(skipped_at_ms=5, now_ms=5 + 30 * DAY_MS - 1)
    assert not is_kept_open(skipped_at_ms=5, now_ms=5 + 30 * DAY_MS)
