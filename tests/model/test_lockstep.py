"""Two real clients do what the symbolic ones do and must agree after each act; from where they stand, all is healed.

The symbolic world heals each state it reaches (test_session_rules); that the real clients are in the same state, and
heal the same way where that is tried, carries the result over to the product.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from restante.core.peer_sessions import ALL_RULES
from support.model.explorer import SCENARIOS, Budget, Explorer, Scenario, start
from support.model.lockstep_explorer import LockstepExplorer
from support.model.symbolic_values import KeyUsedTwice
from support.model.traces import TRACES, Script
from support.spec.clauses import clause

ESTABLISHED = {"both restore": 6_500, "forger": 200}
STRANGERS = {"known restore, fresh": 3_500, "everything, fresh": 3_000, "stolen prekey": 1_500}
"""Nodes of the search per scenario in `make test`. `make explore` takes all scenarios and twelve times as many."""
DISTINCT = 5_000
HEAL_EVERY = 1_500
SOAK_NODES, SOAK_DISTINCT = 40_000, 100_000
MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it


@contextmanager
def explorer(*, is_established: bool) -> Iterator[LockstepExplorer]:
    """Files in memory, where there is such a place: the search makes no promise about disks."""
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as home:
        made = LockstepExplorer(Path(home), loop.run_until_complete, is_established=is_established)
        try:
            yield made
        finally:
            made.close()
            loop.close()


def searched(names: Mapping[str, int], *, is_established: bool) -> LockstepExplorer:
    """Search these scenarios, without the loss of single keys: a real client's ratchet keeps those that it skipped."""
    with explorer(is_established=is_established) as search:
        for name, max_states in names.items():
            scenario = SCENARIOS[name]._replace(budget=SCENARIOS[name].budget._replace(lose_key=0))
            search.explore(scenario, max_states=max_states, heal_every=HEAL_EVERY)
    return search


@clause("8.7", "8.11", "8.12")
@pytest.mark.parametrize("names", [ESTABLISHED, STRANGERS], ids=["established", "strangers"])
def test_two_real_clients_agree_with_the_rules_in_five_thousand_states_each(names: Mapping[str, int]) -> None:
    search = searched(names, is_established=names is ESTABLISHED)
    assert len(search.found.distinct) >= DISTINCT
    assert search.found.healed > 0


@pytest.mark.soak
@pytest.mark.parametrize("is_established", [True, False], ids=["established", "strangers"])
def test_the_same_in_a_hundred_thousand_states_each(is_established: bool) -> None:
    names = {name: SOAK_NODES for name, each in SCENARIOS.items() if each.is_established is is_established}
    assert len(searched(names, is_established=is_established).found.distinct) >= SOAK_DISTINCT


@clause("8.7")
@pytest.mark.parametrize("name", TRACES)
def test_a_trace_that_broke_weaker_rules_is_healed_by_two_real_clients(name: str) -> None:
    trace = TRACES[name]
    with explorer(is_established=trace.is_established) as search:
        world = search.begin()
        trace.act(Script(world, world.back_up))
        search.heal(world.state(), world.real((None, None)))


@clause("8.7")
@pytest.mark.parametrize("name", [name for name, trace in TRACES.items() if trace.needs])
def test_the_same_trace_breaks_a_property_without_its_rule(name: str) -> None:
    trace = TRACES[name]
    rules = replace(ALL_RULES, **{trace.needs: False})
    search = Explorer(rules, Scenario(Budget(), is_established=trace.is_established), one_time_prekeys=1)
    world = search.world(start(search.scenario))

    def act_and_heal() -> None:
        trace.act(Script(world, world.clients.__getitem__))
        assert search.why_not_healed(world.state()) is None

    with pytest.raises((AssertionError, KeyUsedTwice)):
        act_and_heal()
