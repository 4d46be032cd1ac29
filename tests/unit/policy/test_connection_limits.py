"""policy/connection_limits: how many puts a connection may send, to the token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.policy.connection_limits import PushMeter, RelayLimits
from support.spec.clauses import clause


def meter(*, rate: int = 20, burst: int = 500) -> PushMeter:
    return PushMeter(rate_per_s=rate, burst=burst, now_s=100.0)


@clause("6.8")
def test_five_hundred_pass_at_once_and_the_next_waits_a_twentieth_of_a_second() -> None:
    limits = RelayLimits()
    one = PushMeter(rate_per_s=limits.put_rate_per_s, burst=limits.put_burst, now_s=100.0)
    assert [one.wait_ms(100.0) for _ in range(500)] == [0] * 500
    assert one.wait_ms(100.0) == 50
    assert one.wait_ms(100.049) > 0
    assert one.wait_ms(100.06) == 0
    assert one.wait_ms(100.06) > 0


@clause("6.8")
def test_twenty_a_second_pass_for_ever() -> None:
    one = meter(burst=1)
    assert [one.wait_ms(100.0 + number / 19.9) for number in range(200)] == [0] * 200


def test_rest_fills_the_burst_again_and_no_more() -> None:
    one = meter(burst=3)
    for _ in range(3):
        one.wait_ms(100.0)
    assert [one.wait_ms(10_000.0) for _ in range(4)] == [0, 0, 0, 50]


@given(st.integers(1, 50), st.lists(st.tuples(st.floats(0, 2), st.integers(1, 20)), max_size=30))
def test_of_many_at_once_as_many_pass_as_would_one_by_one(burst: int, groups: list[tuple[float, int]]) -> None:
    together, one_by_one = meter(burst=burst), meter(burst=burst)
    now_s = 100.0
    for pause, count in groups:
        now_s += pause
        assert together.take(count, now_s) == sum(one_by_one.wait_ms(now_s) == 0 for _ in range(count))
        assert together.wait_ms(now_s) == one_by_one.wait_ms(now_s)


@given(st.integers(1, 1_000), st.integers(1, 50), st.lists(st.floats(0, 2), max_size=60))
def test_what_passes_never_exceeds_burst_and_rate_and_a_told_wait_is_enough(
    rate: int, burst: int, pauses: list[float]
) -> None:
    one = meter(rate=rate, burst=burst)
    now_s = 100.0
    for passed, pause in enumerate(pauses):
        now_s += pause
        wait_ms = one.wait_ms(now_s)
        if wait_ms:
            now_s += wait_ms / 1_000
            assert one.wait_ms(now_s) <= 1  # the last millisecond may be lost to rounding
        assert passed < burst + (now_s - 100.0) * rate + 1


@pytest.mark.parametrize("rate", [1, 3, 1_000_000])
def test_a_told_wait_is_never_nothing(rate: int) -> None:
    one = meter(rate=rate, burst=1)
    one.wait_ms(100.0)
    assert one.wait_ms(100.0) >= 1
