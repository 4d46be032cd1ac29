"""client/circuits/store_fanout: whose exit is asked for a second opinion (SPEC 11.6)."""

from typing import cast

import pytest

from restante.client.circuits.circuit import NoHopsLeft
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.store_fanout import StoreFanout
from restante.core.circuit.fanout import Acquire
from restante.model.ids import NodeId
from restante.policy.circuits.path import relatives
from restante.policy.failures import Failure
from support.mesh.nodes import node
from support.spec.clauses import clause

DOUBTED, RELATIVE, TARGET, OTHER = (node(number, family=family) for number, family in enumerate((7, 7, 8, 9)))


class Pool:
    """A pool that notes what a circuit is to avoid. Without `others` it has none that avoids a family."""

    def __init__(self, *, others: bool) -> None:
        self.others = others
        self.asked: list[frozenset[NodeId]] = []

    def relatives(self, nodes: frozenset[NodeId]) -> frozenset[NodeId]:
        return relatives([DOUBTED, RELATIVE, TARGET, OTHER], nodes)

    async def acquire(self, _use: str, *, avoid: frozenset[NodeId], prefer_not: frozenset[NodeId]) -> str:
        assert prefer_not == {TARGET.node_id}
        self.asked.append(avoid)
        if RELATIVE.node_id in avoid and not self.others:
            raise NoHopsLeft("only exits of one family", failure=Failure.NETWORK_TIMEOUT)
        return "circuit"


@clause("11.6")
@pytest.mark.parametrize("others", [True, False])
async def test_a_second_opinion_is_that_of_another_family_if_there_is_one(*, others: bool) -> None:
    pool, target = Pool(others=others), frozenset({TARGET.node_id})
    fanout = StoreFanout(cast("CircuitPool", pool))
    avoid = target | {DOUBTED.node_id}
    await fanout._circuit(Acquire(avoid, target, frozenset({DOUBTED.node_id})))
    assert pool.asked == [avoid | {RELATIVE.node_id}, *([] if others else [avoid])]


@clause("11.6")
async def test_without_doubt_no_family_is_avoided() -> None:
    pool, target = Pool(others=True), frozenset({TARGET.node_id})
    await StoreFanout(cast("CircuitPool", pool))._circuit(Acquire(target, target))
    assert pool.asked == [target]
