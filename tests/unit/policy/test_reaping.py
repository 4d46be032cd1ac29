"""policy/reaping: a clock that jumped deletes nothing for a day (SPEC 6.10)."""

from restante.policy.reaping import CLOCK_JUMP_MS, may_reap, reap_not_before_ms
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000
MONTH_MS = 31 * CLOCK_JUMP_MS


@clause("6.10")
def test_a_node_that_starts_a_month_ahead_waits_a_day() -> None:
    until_ms = reap_not_before_ms(now_ms=NOW_MS + MONTH_MS, last_event_at_ms=NOW_MS, earlier_ms=0)
    assert until_ms == NOW_MS + MONTH_MS + CLOCK_JUMP_MS
    assert not may_reap(now_ms=until_ms - 1, not_before_ms=until_ms)
    assert may_reap(now_ms=until_ms, not_before_ms=until_ms)


@clause("6.10")
def test_a_second_start_with_the_same_wrong_clock_does_not_end_the_delay() -> None:
    until_ms = reap_not_before_ms(now_ms=NOW_MS + MONTH_MS, last_event_at_ms=NOW_MS, earlier_ms=0)
    soon_ms = NOW_MS + MONTH_MS + 60_000
    assert reap_not_before_ms(now_ms=soon_ms, last_event_at_ms=soon_ms - 1_000, earlier_ms=until_ms) == until_ms


@clause("6.10")
def test_a_clock_that_was_put_right_ends_the_delay() -> None:
    until_ms = reap_not_before_ms(now_ms=NOW_MS + MONTH_MS, last_event_at_ms=NOW_MS, earlier_ms=0)
    assert may_reap(now_ms=NOW_MS, not_before_ms=until_ms)


@clause("6.10")
def test_an_ordinary_restart_and_a_first_start_reap_at_once() -> None:
    for last_ms in (None, NOW_MS, NOW_MS - CLOCK_JUMP_MS, NOW_MS + MONTH_MS):
        until_ms = reap_not_before_ms(now_ms=NOW_MS, last_event_at_ms=last_ms, earlier_ms=0)
        assert may_reap(now_ms=NOW_MS, not_before_ms=until_ms)
