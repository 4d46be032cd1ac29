"""policy/circuits: rates with the time to wait, learned build time-outs, limits with their ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import OutOfRange
from restante.policy.circuits.build_times import FIRST_S, MAX_S, BuildTimes
from restante.policy.circuits.client_rates import ClientRates, circuit_meter
from restante.policy.circuits.create_limits import core_meter, create_meter
from restante.policy.circuits.limits import CircuitLimits, may_create
from restante.policy.circuits.silence import Silence, inner_connect_limit_s, judge_silence, silent_after_s
from restante.policy.circuits.token_bucket import TokenBucket
from support.spec.clauses import clause


@clause("11.2")
def test_a_client_sends_a_thousand_messages_a_minute_and_is_then_told_when_to_go_on() -> None:
    rates = ClientRates(CircuitLimits(), now_s=0.0)
    assert {rates.take(10, 0.0) for _ in range(1_000)} == {0}
    wait_ms = rates.take(10, 0.0)
    assert 0 < wait_ms <= 60
    assert rates.take(10, wait_ms / 1_000) == 0


@clause("11.2")
def test_a_client_sends_a_megabyte_a_second() -> None:
    rates = ClientRates(CircuitLimits(), now_s=0.0)
    sent, now_s = 0, 0.0
    while now_s < 10:
        wait_ms = rates.take(262_144, now_s)
        sent += 262_144 if not wait_ms else 0
        now_s += wait_ms / 1_000
    assert 10 * 1_048_576 <= sent <= 12 * 1_048_576


@clause("11.2")
def test_a_circuit_takes_a_hundred_messages_a_minute() -> None:
    meter = circuit_meter(0.0)
    assert sum(meter.take(1, 0.0) for _ in range(200)) == 100
    assert sum(meter.take(1, second) for second in range(1, 61) for _ in range(10)) in range(99, 102)


@clause("11.5")
def test_a_client_connection_creates_twenty_circuits_a_second() -> None:
    meter = create_meter(is_node=False, now_s=0.0)
    assert sum(meter.take(1, 0.0) for _ in range(100)) == 20
    assert sum(create_meter(is_node=True, now_s=0.0).take(1, 0.0) for _ in range(1_000)) > 20


@clause("11.5")
def test_a_source_has_no_limit_until_half_of_the_circuits_are_taken_then_it_holds_a_quarter() -> None:
    limits = CircuitLimits()
    half, quarter = limits.max_circuits // 2, limits.max_circuits // 4
    assert may_create(limits, taken=half - 1, of_source=half - 1)
    assert not may_create(limits, taken=half, of_source=half)
    assert may_create(limits, taken=limits.max_circuits - 1, of_source=quarter - 1)
    assert not may_create(limits, taken=half, of_source=quarter)
    assert not may_create(limits, taken=limits.max_circuits, of_source=0)


@clause("11.5")
def test_handshakes_take_a_quarter_of_a_core() -> None:
    meter, worked = core_meter(0.0), 0.0
    for tick in range(100_000):
        if meter.has(0.0001, tick / 10_000):
            meter.spend(0.0002, tick / 10_000)
            worked += 0.0002
    assert worked == pytest.approx(2.5 + 0.25, abs=0.01)


@given(st.lists(st.floats(0, 10), max_size=50), st.integers(1, 100), st.integers(1, 20))
def test_a_bucket_never_gives_more_than_its_rate_and_burst(waits: list[float], rate: int, burst: int) -> None:
    bucket, now_s, taken = TokenBucket(per_s=rate, burst=burst, now_s=0.0), 0.0, 0
    for wait in waits:
        now_s += wait
        taken += bucket.take(1, now_s)
    assert taken <= burst + rate * now_s + 1e-6


@clause("11.3")
def test_the_time_out_is_five_seconds_until_ten_builds_are_known() -> None:
    times = BuildTimes()
    assert times.timeout_s == FIRST_S
    for _ in range(9):
        times.built(1.0)
    assert times.timeout_s == FIRST_S
    times.built(1.0)
    assert times.timeout_s == pytest.approx(1.5)


@clause("11.3")
def test_the_time_out_follows_the_80_percent_quantile() -> None:
    times = BuildTimes()
    for tenth in range(100):
        times.built(tenth / 10)
    assert times.timeout_s == pytest.approx(1.5 * 8.0)
    for _ in range(100):
        times.built(1.0)
    assert times.timeout_s == pytest.approx(1.5)


@clause("11.3")
def test_a_build_after_the_time_out_is_learned_from() -> None:
    times = BuildTimes()
    for _ in range(20):
        times.built(0.4)
    before = times.timeout_s
    for _ in range(10):
        times.timed_out()
        times.built(2 * before)
    assert times.timeout_s > before


@clause("11.3")
def test_many_time_outs_in_a_row_widen_the_time_out_up_to_a_minute() -> None:
    times = BuildTimes()
    for _ in range(5):
        times.timed_out()
    assert times.timeout_s == 2 * FIRST_S
    for _ in range(100):
        times.timed_out()
    assert times.timeout_s == MAX_S
    times.built(1.0)
    assert times.timeout_s == FIRST_S


@clause("11.2")
@pytest.mark.parametrize(("name", "value"), [("pool", 5), ("pool", 17), ("spares", 0), ("spares", 4)])
def test_a_pool_outside_its_range_is_refused(name: str, value: int) -> None:
    with pytest.raises(OutOfRange, match=f"circuits.{name}"):
        CircuitLimits(**{name: value})


@clause("11.3")
def test_a_silent_circuit_is_given_up_and_its_exit_probed_first_if_a_node_may_be_slow() -> None:
    def judged(owed_s: float, *, is_storing: bool = False, is_probed: bool = False) -> Silence:
        return judge_silence(owed_s, limit_s=3.0, is_storing=is_storing, is_probed=is_probed)

    assert judged(2.9, is_storing=True) is judged(2.9) is Silence.WAIT
    assert judged(3.0, is_storing=True) is Silence.GIVE_UP
    assert judged(3.0) is judged(7.0) is Silence.PROBE
    assert judged(5.9, is_probed=True) is Silence.WAIT
    assert judged(6.0, is_probed=True) is Silence.GIVE_UP


@clause("11.3")
def test_where_builds_take_long_answers_and_inner_connections_may() -> None:
    assert (silent_after_s(0.5), silent_after_s(20.0)) == (3.0, 20.0)
    assert (inner_connect_limit_s(0.5), inner_connect_limit_s(2.0), inner_connect_limit_s(20.0)) == (3.0, 6.0, 10.0)
