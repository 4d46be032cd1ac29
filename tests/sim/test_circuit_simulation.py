"""Mail through simulated circuits, over the real machines: the targets of SPEC 1.7, with faults and without.

`python -m bench.circuit_simulation` runs the ten seeds of ten hours for docs/benchmarks.md.
"""

from collections.abc import Callable
from typing import Any

import pytest

from restante.core import inbox, receiving
from restante.testing.circuit_simulation import LINKS, CircuitResult, CircuitSettings, CircuitSimulation
from restante.testing.mesh_simulation.node import SimulatedNode
from support.spec.clauses import clause

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
IN_TIME_MS = HOUR_MS  # the shortest TTL of a text (SPEC 2.3)
SMALL = CircuitSettings(nodes=30, people=6, messages=400, sending_ms=50 * MINUTE_MS, total_ms=HOUR_MS)
TINY = CircuitSettings(nodes=12, people=2, messages=20, sending_ms=2 * MINUTE_MS, total_ms=5 * MINUTE_MS)
TEN_HOURS = CircuitSettings()
SEEDS = range(1, 11)
SHARES = (0.5, 0.9, 0.99, 0.999)


def run(settings: CircuitSettings, seed: int) -> CircuitResult:
    print(f"seed {seed}: {settings}")  # noqa: T201 - a failure names its seed
    result = CircuitSimulation(settings, seed).run()
    figures = {share: result.quantile_ms(share) for share in SHARES}
    shown = {name: getattr(result, name) for name in result.__slots__ if name != "latencies_ms"}
    print(figures, shown)  # noqa: T201 - for who looks at a failure
    return result


def check_every_message(result: CircuitResult) -> None:
    """Every accepted message is accounted for; none is shown twice or in another order than it was written in."""
    assert result.is_balanced
    assert result.shown_twice == 0
    assert result.shown_out_of_order == 0
    assert result.verdicts.keys() <= {"new", "duplicate"}, "no rule took a copy for a replay or a collision"
    assert result.verdicts["new"] == result.read
    assert result.verdicts["duplicate"] >= result.read, "several nodes push each message"


def check_with_faults(result: CircuitResult) -> None:
    check_every_message(result)
    assert result.delivered_within(IN_TIME_MS) >= 0.999
    assert result.quantile_ms(0.99) <= 10_000
    assert all(result.possible_ms(share) <= result.quantile_ms(share) for share in SHARES)
    assert result.crashes > 0
    assert result.cells_dropped > 0


def check_without_faults(result: CircuitResult, settings: CircuitSettings) -> None:
    check_every_message(result)
    sum_of_medians_ms = LINKS * settings.link_ms
    assert result.read == settings.messages
    assert result.quantile_ms(0.5) <= 1.3 * sum_of_medians_ms
    assert result.quantile_ms(0.99) <= 3 * sum_of_medians_ms


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second, other = run(TINY, 5), run(TINY, 5), run(TINY, 6)
    assert first == second
    assert first.trace != other.trace


@clause("1.7", "11.3", "11.4")
def test_crashes_dropping_hops_and_a_partition_cost_no_message_and_little_time() -> None:
    check_with_faults(run(SMALL, 1))


@clause("1.7", "11.2")
def test_without_faults_mail_takes_little_longer_than_its_links() -> None:
    settings = SMALL.without_faults()
    check_without_faults(run(settings, 2), settings)


def _nothing_known(*_: Any, **__: Any) -> None:
    """A dedup index that recognises nothing."""


def _never_consumed(*_: Any, **__: Any) -> bool:
    """An order that takes every number as one that is still missing."""
    return False


def _keep_nothing(*_: Any) -> None:
    """A node that signs and does not store."""


_NO_FINGERPRINTS = (receiving, "classify_before_decryption", _nothing_known)
_NO_NUMBERS = (inbox, "is_consumed", _never_consumed)


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param([_NO_FINGERPRINTS], id="copies are replays"),
        pytest.param([_NO_FINGERPRINTS, _NO_NUMBERS], id="copies are shown"),
        pytest.param([(SimulatedNode, "_keep", _keep_nothing)], id="nodes do not store"),
    ],
)
@clause("1.1", "1.4", "1.7")
def test_a_planted_fault_is_found(
    planted: list[tuple[Any, str, Callable[..., Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TINY.without_faults()
    check_every_message(run(settings, 1))
    for where, name, fault in planted:
        monkeypatch.setattr(where, name, fault)
    result = run(settings, 1)
    with pytest.raises(AssertionError):
        check_every_message(result)
    if len(planted) == 2:
        assert result.shown_twice > 0


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
