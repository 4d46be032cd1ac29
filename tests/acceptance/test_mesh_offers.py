"""Real nodes hand mail that was stored farther out to the five closest (decision 0038).

No agent runs here: there are no pings and no rounds that could bring the mail.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.policy.mesh.placement import COPIES, place
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames.mesh_replication import KeySummary
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.running_nodes import NOW_MS, RunningNode, inbox_now, introduce, running_node
from support.spec.clauses import clause
from support.system.wait_until import until_true

NODES = 8
BODY = b"stored farther out"
HASHED = hash_sealed_bytes(BODY)


class Nodes:
    """Nodes that know each other, closest to the inbox first. Each can stop and come back with its disk."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = FakeClock(NOW_MS)
        self.inbox = inbox_now(self.clock)
        self.running: dict[int, RunningNode] = {}
        self._ends: dict[int, contextlib.AsyncExitStack] = {}

    async def start(self, number: int, *, port: int = 0) -> RunningNode:
        stack = contextlib.AsyncExitStack()
        node = await stack.enter_async_context(
            running_node(self.home / str(number), number, clock=self.clock, port=port)
        )
        self.running[number], self._ends[number] = node, stack
        introduce(list(self.running.values()))
        return node

    async def stop(self, number: int) -> int:
        """Stop a node; return its port. The others still have its descriptor."""
        port = self.running.pop(number).port
        await self._ends.pop(number).aclose()
        return port

    def in_order(self) -> list[int]:
        numbers = {node.service.view.own.node_id: number for number, node in self.running.items()}
        index = next(iter(self.running.values())).service.view.index()
        return [numbers[each.node_id] for each in place(index, self.inbox.key, len(numbers))]

    async def put(self, number: int, *bodies: bytes) -> None:
        connection = await self.running[number].dial()
        for body in bodies:
            answer = await connection.put(self.inbox.signer.public_key, self.inbox.bucket, self.inbox.envelope(body))
            assert isinstance(answer, StorageReceipt)

    def held_by(self, numbers: list[int]) -> list[int]:
        """Return how many blobs of the inbox each node holds."""
        stores = [self.running[each].service.store for each in numbers]
        return [len(each.live_hashes(self.inbox.key, now_ms=0)) for each in stores]


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    made = Nodes(tmp_path)
    for number in range(1, NODES + 1):
        await made.start(number)
    yield made
    for number in list(made.running):
        await made.stop(number)


@clause("7.3", "7.9")
async def test_mail_that_three_farther_nodes_took_is_pushed_by_the_five(nodes: Nodes) -> None:
    order = nodes.in_order()
    reader = await nodes.running[order[0]].dial()
    await reader.subscribe([nodes.inbox.entry(reader, subscribes=True)])
    for number in order[COPIES:]:
        await nodes.put(number, BODY)
    pushed = await reader.next_pushed()
    assert [each.envelope for each in pushed] == [nodes.inbox.envelope(BODY)]
    await until_true(lambda: nodes.held_by(order[:COPIES]) == [1] * COPIES)
    assert all(each.agent.replication.rounds == 0 for each in nodes.running.values())


@clause("7.9")
async def test_a_node_that_was_away_gets_the_mail_when_it_is_back(nodes: Nodes) -> None:
    order = nodes.in_order()
    away = order[0]
    port = await nodes.stop(away)
    bodies = [b"message %d" % number for number in range(100)]
    await nodes.put(order[COPIES], *bodies)
    await until_true(lambda: nodes.held_by(order[1:COPIES]) == [len(bodies)] * (COPIES - 1))
    await nodes.start(away, port=port)
    await until_true(lambda: nodes.held_by([away]) == [len(bodies)])


@clause("7.9")
async def test_mail_of_one_of_the_five_is_not_offered(nodes: Nodes) -> None:
    """Its sender puts to the other four itself."""
    order = nodes.in_order()
    await nodes.put(order[0], BODY)
    await nodes.put(order[COPIES], b"other mail")
    offers = {each: len(nodes.running[each].agent.offers.machine) for each in order}
    assert offers[order[0]] == 0
    await until_true(lambda: nodes.held_by(order[1:COPIES]) == [1] * (COPIES - 1))


@clause("7.4", "7.9")
async def test_mail_that_its_owner_deleted_is_not_brought_back(nodes: Nodes) -> None:
    order = nodes.in_order()
    closest, sixth = nodes.running[order[0]], nodes.running[order[COPIES]]
    await nodes.put(order[0], BODY)
    reader = await closest.dial()
    await reader.delete(nodes.inbox.delete([HASHED]))
    await nodes.put(order[COPIES], BODY)
    await until_true(lambda: nodes.held_by(order[1:COPIES]) == [1] * (COPIES - 1))
    await until_true(lambda: len(sixth.agent.offers.machine) == 0)
    assert nodes.held_by([order[0]]) == [0]


@clause("7.9")
async def test_the_answer_to_an_offer_says_what_the_node_holds_also_if_that_is_nothing(nodes: Nodes) -> None:
    order = nodes.in_order()
    key = nodes.inbox.key
    connection = await nodes.running[order[0]].dial()
    connection.authenticate(nodes.running[order[COPIES]].identity)
    offered = KeySummary(inbox_key=key, count=1, xor=HASHED)
    assert await connection.have(key, key, [offered]) == ({key: {}}, key)
    assert await connection.have(key, key, []) == ({}, key)
    await nodes.put(order[0], BODY)
    assert await connection.have(key, key, [offered]) == ({}, key)
    assert await connection.have(key, key, []) == ({key: {HASHED: None}}, key)
