"""The machines of the mesh in a simulated network: nothing that was sent is lost, and every seed can be repeated."""

import pytest
from bench.mesh_simulation import A_DAY, SEEDS

from restante.testing.mesh_simulation import MeshSettings, MeshSimulation, Partition, SimulationResult, simulate_lookups
from support.spec.clauses import clause

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
SMALL = MeshSettings(nodes=40, recipients=10, messages=60, sending_ms=3 * HOUR_MS, total_ms=32 * HOUR_MS)


def run(settings: MeshSettings, seed: int) -> SimulationResult:
    print(f"seed {seed}: {settings}")  # noqa: T201 - a failure names its seed
    return MeshSimulation(settings, seed).run()


def changed(**values: object) -> MeshSettings:
    base = {name: getattr(SMALL, name) for name in SMALL.__slots__}
    return MeshSettings(**(base | values))


def test_the_same_seed_gives_the_same_trace() -> None:
    settings = changed(churn_per_hour=0.2, restarts_per_hour=0.1, total_ms=5 * HOUR_MS, messages=20)
    first, second, other = run(settings, 5), run(settings, 5), run(settings, 6)
    assert first == second
    assert first.trace != other.trace


@clause("7.3", "7.4", "7.5", "7.9")
def test_a_fifth_of_the_nodes_lost_every_hour_costs_no_message() -> None:
    result = run(changed(churn_per_hour=0.2, churn_ms=10 * HOUR_MS, restarts_per_hour=0.1), 11)
    assert result.is_balanced
    assert (result.read, result.wrongly_finalized, result.lost) == (60, 0, 0)
    assert result.crashes > 100
    assert result.copied > 0


@clause("7.5")
def test_a_partition_across_an_hours_end_with_senders_gone_afterwards_costs_no_message() -> None:
    parted = Partition(from_ms=90 * MINUTE_MS, until_ms=270 * MINUTE_MS)
    result = run(
        changed(
            partition=parted, stores_again=False, sending_ms=5 * HOUR_MS, churn_per_hour=0.05, churn_ms=10 * HOUR_MS
        ),
        12,
    )
    assert result.is_balanced
    assert (result.read, result.wrongly_finalized, result.lost) == (60, 0, 0)


@clause("7.4", "13.5")
def test_liars_are_named_by_their_receipts_and_honest_nodes_never() -> None:
    result = run(changed(liars=0.2, churn_per_hour=0.1, churn_ms=6 * HOUR_MS, messages=100), 13)
    assert result.read == 100
    assert result.accused
    assert result.accused <= result.liars


@clause("7.2", "7.11")
def test_clocks_off_by_two_hours_cost_nothing() -> None:
    result = run(changed(clock_skew_ms=2 * HOUR_MS), 14)
    assert (result.read, result.wrongly_finalized) == (60, 0)


@clause("7.3", "7.5", "7.9")
@pytest.mark.parametrize(("gap", "seed"), [(0.4, 21), (0.6, 22)])
def test_directories_with_gaps_cost_no_message(gap: float, seed: int) -> None:
    """Without the round after each bucket's end, one and two of these messages are finalized unread."""
    result = run(changed(directory_gap=gap, stores_again=False), seed)
    assert (result.read, result.wrongly_finalized) == (60, 0)


@clause("7.3")
@pytest.mark.parametrize("nodes", [2, 3])
def test_a_mesh_of_two_nodes_reaches_its_quorum(nodes: int) -> None:
    result = run(changed(nodes=nodes, messages=20), 15)
    assert (result.read, result.unsent) == (20, 0)


@clause("7.3")
def test_a_mesh_of_one_node_sends_nothing_and_loses_nothing() -> None:
    result = run(changed(nodes=1, messages=5, total_ms=4 * HOUR_MS), 15)
    assert result.store_ms == []
    assert result.is_balanced
    assert result.lost == result.wrongly_finalized == 0


@clause("7.1")
def test_a_lookup_among_a_thousand_nodes_takes_few_rounds() -> None:
    result = simulate_lookups(1_000, lookups=100, seed=16, dead=0.1)
    assert result.quantile(0.5) <= 2
    assert result.quantile(0.99) <= 5
    assert result.found_closest == 100


@clause("7.1")
@pytest.mark.soak
def test_a_lookup_among_ten_thousand_nodes_takes_few_rounds() -> None:
    result = simulate_lookups(10_000, lookups=500, seed=17, dead=0.1)
    assert result.quantile(0.5) <= 3
    assert result.quantile(0.99) <= 6
    assert result.found_closest >= 499


@clause("7.3", "7.5", "7.9")
@pytest.mark.soak
@pytest.mark.parametrize("seed", SEEDS)
def test_a_thousand_nodes_for_a_day_lose_nothing(seed: int) -> None:
    result = run(A_DAY, seed)
    assert result.is_balanced
    assert (result.lost, result.wrongly_finalized, result.unsent) == (0, 0, 0)
    assert result.read == A_DAY.messages
