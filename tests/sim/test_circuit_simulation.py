"""Mail through simulated circuits, over the real machines: the targets of SPEC 1.7, with faults and without."""

import pytest

from restante.testing.circuit_simulation import LINKS, CircuitResult, CircuitSettings, CircuitSimulation
from support.spec.clauses import clause

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
IN_TIME_MS = HOUR_MS  # the shortest TTL of a text (SPEC 2.3)
SMALL = CircuitSettings(nodes=30, people=6, messages=150, sending_ms=50 * MINUTE_MS, total_ms=HOUR_MS)
TEN_HOURS = CircuitSettings()
SEEDS = range(1, 11)


def run(settings: CircuitSettings, seed: int) -> CircuitResult:
    print(f"seed {seed}: {settings}")  # noqa: T201 - a failure names its seed
    result = CircuitSimulation(settings, seed).run()
    figures = {share: result.quantile_ms(share) for share in (0.5, 0.9, 0.99, 0.999)}
    shown = {name: getattr(result, name) for name in result.__slots__ if name != "latencies_ms"}
    print(figures, shown)  # noqa: T201 - the figures of docs/protocol/circuits.md
    return result


def check_with_faults(result: CircuitResult) -> None:
    assert result.is_balanced
    assert result.delivered_within(IN_TIME_MS) >= 0.999
    assert result.shown_twice == 0
    assert result.quantile_ms(0.99) <= 10_000
    assert result.crashes > 0
    assert result.cells_dropped > 0


def check_without_faults(result: CircuitResult, settings: CircuitSettings) -> None:
    sum_of_medians_ms = LINKS * settings.link_ms
    assert result.read == settings.messages
    assert result.shown_twice == 0
    assert result.quantile_ms(0.5) <= 1.3 * sum_of_medians_ms
    assert result.quantile_ms(0.99) <= 3 * sum_of_medians_ms


def test_the_same_seed_gives_the_same_trace() -> None:
    settings = CircuitSettings(nodes=12, people=2, messages=10, sending_ms=2 * MINUTE_MS, total_ms=5 * MINUTE_MS)
    first, second, other = run(settings, 5), run(settings, 5), run(settings, 6)
    assert first == second
    assert first.trace != other.trace


@pytest.mark.soak
@clause("1.7", "11.3", "11.4")
def test_crashes_dropping_hops_and_a_partition_cost_no_message_and_little_time() -> None:
    check_with_faults(run(SMALL, 1))


@clause("1.7", "11.2")
def test_without_faults_mail_takes_little_longer_than_its_links() -> None:
    settings = SMALL.without_faults()
    check_without_faults(run(settings, 2), settings)


@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
@clause("1.7", "11.3", "11.4")
def test_ten_hours_with_faults_cost_no_message_and_little_time(seed: int) -> None:
    check_with_faults(run(TEN_HOURS, seed))


@pytest.mark.soak
@clause("1.7", "11.2")
def test_ten_hours_without_faults_take_little_longer_than_the_links() -> None:
    settings = TEN_HOURS.without_faults()
    check_without_faults(run(settings, 1), settings)
