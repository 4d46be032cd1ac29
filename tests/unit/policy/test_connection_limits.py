"""policy/connection_limits: which connections a relay admits, which it reads from, and the optional put rate."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.policy.connection_limits import (
    MAX_UNCOMMITTED_PER_CONNECTION,
    PutMeter,
    RelayLimits,
    may_connect,
    may_read,
)
from support.spec.clauses import clause

LIMITS = RelayLimits()


@clause("6.8")
def test_by_default_no_put_rate_is_fixed() -> None:
    assert LIMITS.put_rate_per_s == 0


@clause("6.8")
def test_a_single_source_may_take_half_of_the_connections_and_then_no_more() -> None:
    taken = next(number for number in count() if not may_connect(LIMITS, taken=number, of_source=number))
    assert taken == LIMITS.max_connections // 2


@clause("6.8")
def test_once_half_are_taken_a_source_holds_at_most_a_quarter() -> None:
    half, quarter = LIMITS.max_connections // 2, LIMITS.max_connections // 4
    assert may_connect(LIMITS, taken=half, of_source=quarter - 1)
    assert not may_connect(LIMITS, taken=half, of_source=quarter)
    assert may_connect(LIMITS, taken=half - 1, of_source=half - 1)


@clause("6.8")
@given(st.integers(1, 5_000), st.integers(0, 5_000), st.integers(0, 5_000))
def test_no_connection_is_admitted_beyond_the_limit(most: int, taken: int, of_source: int) -> None:
    limits = RelayLimits(max_connections=most)
    if may_connect(limits, taken=taken, of_source=min(of_source, taken)):
        assert taken < most


@clause("6.8")
def test_a_greedy_source_is_paused_and_a_modest_one_is_still_read() -> None:
    half = LIMITS.max_uncommitted_bytes // 2
    assert may_read(LIMITS, of_connection=1_000, of_source=half, total=half, sources=1)
    assert not may_read(LIMITS, of_connection=1_000, of_source=half, total=half + 1, sources=2)
    assert may_read(LIMITS, of_connection=1_000, of_source=1_000, total=half + 1_000, sources=2)


def test_a_connection_has_a_limit_of_its_own() -> None:
    own = MAX_UNCOMMITTED_PER_CONNECTION
    assert may_read(LIMITS, of_connection=own, of_source=own, total=own, sources=1)
    assert not may_read(LIMITS, of_connection=own + 1, of_source=own + 1, total=own + 1, sources=1)


@clause("6.8")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 300_000)), max_size=300))
def test_whatever_sources_send_what_waits_stays_bounded(reads: list[tuple[int, int]]) -> None:
    limits = RelayLimits(max_uncommitted_bytes=1_048_576)
    held: dict[int, int] = {}
    for source, size_bytes in reads:
        sources = len(held.keys() | {source})
        of_source = held.get(source, 0)
        if may_read(limits, of_connection=0, of_source=of_source, total=sum(held.values()), sources=sources):
            held[source] = of_source + size_bytes
    assert sum(held.values()) <= limits.max_uncommitted_bytes + len(held) * 300_000 + 524_288


@clause("6.8")
def test_a_rate_passes_a_second_at_once_and_then_so_many_a_second() -> None:
    meter = PutMeter(rate_per_s=20, now_s=100.0)
    assert meter.take(25, 100.0) == 20
    assert meter.take(1, 100.0) == 0
    assert meter.wait_ms() == 50
    assert meter.take(5, 100.06) == 1
    assert meter.take(1_000, 10_000.0) == 20


@given(st.integers(1, 1_000), st.lists(st.tuples(st.floats(0, 2), st.integers(1, 20)), max_size=60))
def test_what_passes_never_exceeds_the_rate(rate: int, groups: list[tuple[float, int]]) -> None:
    meter = PutMeter(rate_per_s=rate, now_s=100.0)
    now_s, passed = 100.0, 0
    for pause, wanted in groups:
        now_s += pause
        passed += meter.take(wanted, now_s)
        assert passed <= rate + (now_s - 100.0) * rate + 1e-6


@pytest.mark.parametrize("rate", [1, 3, 1_000_000])
def test_a_wait_is_never_nothing(rate: int) -> None:
    meter = PutMeter(rate_per_s=rate, now_s=100.0)
    meter.take(rate, 100.0)
    assert meter.wait_ms() >= 1
