"""The DHT on arrays: the same lookups as core/lookup, the closest nodes of all, and copies that last as computed."""

import numpy as np
import pytest

from restante.core import lookup
from restante.core.lookup import Ask, AskFailed, Finish, NodesAnswered, Phase
from restante.fleet.kernels.dht_availability import surviving
from restante.fleet.kernels.dht_lookups import WANT, found_closest, look_up, run_batch
from restante.fleet.kernels.dht_network import FAREST, Network, network, searches
from restante.model.ids import NodeId
from support.spec.clauses import clause


def node_id(number: int) -> NodeId:
    return NodeId(number.to_bytes(8, "big") + bytes(24))


def table(net: Network, node: int, target: int) -> tuple[NodeId, ...]:
    pair = (np.array([value], dtype=np.uint64) for value in (node, target))
    return tuple(node_id(int(each) ^ target) for each in net.contacts(*pair)[0] if each != FAREST)


def by_core(net: Network, start: int, target: int) -> tuple[int, int, list[int]]:
    """The rounds, requests and distances found by core/lookup; requests are answered in their order."""
    state, effects = lookup.start(node_id(target), table(net, start, target), want=WANT)
    waiting: list[NodeId] = []
    requests = 0
    found: tuple[NodeId, ...] = ()
    while True:
        for effect in effects:
            if isinstance(effect, Ask):
                waiting.append(effect.node)
                requests += 1
            elif isinstance(effect, Finish):
                found = effect.closest
        if state.phase is not Phase.SEARCHING:
            return state.rounds, requests, [int.from_bytes(each[:8], "big") ^ target for each in found]
        node = waiting.pop(0)
        number = int.from_bytes(node[:8], "big")
        if net.dead(np.array([number], dtype=np.uint64))[0]:
            state, effects = lookup.step(state, AskFailed(node))
        else:
            state, effects = lookup.step(state, NodesAnswered(node, table(net, number, target)))


@clause("7.1")
@pytest.mark.parametrize(("nodes", "dead"), [(3, 0.0), (60, 0.3), (1_000, 0.1), (5_000, 0.0)])
def test_lookups_on_arrays_are_those_of_the_core(nodes: int, dead: float) -> None:
    net = network(nodes, dead=dead, seed=nodes)
    start, targets = searches(net, np.arange(40))
    results = look_up(net, start, targets)
    for place in range(len(targets)):
        rounds, requests, closest = by_core(net, int(start[place]), int(targets[place]))
        assert (results.rounds[place], results.requests[place]) == (rounds, requests)
        assert [int(each) for each in results.closest[place] if each != FAREST] == closest


@clause("7.1")
def test_lookups_among_a_hundred_thousand_nodes_take_few_rounds_and_find_the_closest() -> None:
    found = run_batch(network(100_000, dead=0.1, seed=5), np.arange(200))
    assert np.quantile(found["rounds"], 0.5) <= 4
    assert found["rounds"].max() <= 8
    assert found["found_closest"].mean() > 0.98
    assert found["requests"].mean() < 40


def test_the_closest_living_nodes_are_those_of_a_search_through_all() -> None:
    net = network(3_000, dead=0.2, seed=9)
    _, targets = searches(net, np.arange(50))
    living = net.ids[~net.is_dead]
    for place, target in enumerate(targets):
        expected = np.sort(living ^ target)[:WANT]
        assert np.array_equal(net.closest_living(targets, WANT)[place], expected)


def test_a_lookup_that_missed_the_closest_node_is_counted_as_such() -> None:
    net = network(1_000, dead=0.0, seed=3)
    start, targets = searches(net, np.arange(10))
    results = look_up(net, start, targets)
    results.closest[0, 0] ^= np.uint64(1)
    first, whole = found_closest(net, results, targets)
    assert (first[0], whole[0]) == (False, False)


def expected_share(*, copies: int, churn: float, hour: int, is_repaired: bool) -> float:
    """The exact share of blobs that have a copy left after this many hours."""
    if is_repaired:
        return float((1.0 - churn**copies) ** hour)
    return float(1.0 - (1.0 - (1.0 - churn) ** hour) ** copies)


@clause("7.3", "7.9")
@pytest.mark.parametrize("copies", [3, 5])
@pytest.mark.parametrize("is_repaired", [True, False])
def test_copies_last_as_long_as_computed(copies: int, is_repaired: bool) -> None:
    counts = surviving(50_000, copies=copies, churn=0.2, hours=24, is_repaired=is_repaired, seed=[1, copies])
    for hour in (1, 6, 24):
        expected = expected_share(copies=copies, churn=0.2, hour=hour, is_repaired=is_repaired)
        error = 5 * (expected * (1 - expected) / 50_000) ** 0.5 + 1e-4
        assert counts[hour] / 50_000 == pytest.approx(expected, abs=error)
