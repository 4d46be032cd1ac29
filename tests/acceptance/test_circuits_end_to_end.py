"""The whole way on real processes: clients that require circuits, hops and storage of `restante up`, kill -9."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode
from support.circuit.people import kill, node_processes, pair, received
from support.spec.clauses import clause

NODES = 7
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LocalNode]]:
    with node_processes(tmp_path_factory.mktemp("mesh"), NODES) as made:
        yield made


@clause("1.1", "11.1", "11.6", "11.7")
async def test_mail_arrives_through_circuits_once_in_order_and_acks_come_back(
    nodes: list[LocalNode], tmp_path: Path
) -> None:
    async with pair(tmp_path, nodes) as (alice, bob):
        texts = [f"message {number}" for number in range(20)]
        sent = await alice.send_many("peer", texts)
        assert await received(bob, 20) == texts
        async with asyncio.timeout(LIMIT_S):
            for each in sent:
                await each.delivered()


@clause("11.3")
async def test_a_killed_hop_costs_a_circuit_and_no_message(nodes: list[LocalNode], tmp_path: Path) -> None:
    async with pair(tmp_path, nodes) as (alice, bob):
        before = [f"before {number}" for number in range(5)]
        await alice.send_many("peer", before)
        assert await received(bob, 5) == before
        kill(nodes[-1])
        after = [f"after {number}" for number in range(5)]
        await alice.send_many("peer", after)
        assert await received(bob, 5) == after
