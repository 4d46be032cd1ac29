"""Mail that a sender stored farther out reaches its recipient soon after the five closest nodes answer again."""

from collections.abc import Iterable
from functools import partial

import pytest

from restante.core.replication import serving
from restante.core.replication.serving import Serving
from restante.model.ids import PayloadHash
from restante.policy.mesh.placement import COPIES, place
from restante.policy.mesh.repair import PING_INTERVAL_MS
from restante.policy.mesh.time_buckets import bucket_at
from restante.testing.mesh_simulation.clients import Message, Recipient, Sender, inbox_key_in
from restante.testing.mesh_simulation.directory_view import DirectoryView
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.repair import Replicator
from restante.testing.mesh_simulation.values import MINUTE_MS, START_MS, SimulationResult
from support.spec.clauses import clause

SENT_AT_MS = START_MS + 10 * MINUTE_MS
SILENT_MS = 50_000
"""No neighbour misses two pings, so no round follows."""
HEALED_AT_MS = SENT_AT_MS + SILENT_MS
SECOND_MS = 1_000
RECIPIENT = 1


class World:
    """Thirty nodes. The recipient, and the five nodes that it reads, can be cut off from all others."""

    def __init__(self, seed: int) -> None:
        self.engine = Engine(seed, delay_ms=40.0, loss=0.02)
        nodes: list[SimulatedNode] = []
        directory = DirectoryView(self.engine, nodes)
        result = SimulationResult(seed=seed)
        self.network = NetworkMap(engine=self.engine, directory=directory, result=result)
        for number in range(30):
            node = SimulatedNode(number, joined_at_ms=START_MS, family=None, side=0)
            node.serving = Serving(phase=serving.Phase.SERVING)
            nodes.append(node)
            self.network.nodes[node.node_id] = node
            self.network.lags_ms[node.node_id] = 0
        directory.take()
        self.key = inbox_key_in(RECIPIENT, bucket_at(START_MS))
        self.five = [self.network.nodes[each.node_id] for each in place(directory.index(0, lag_ms=0), self.key, COPIES)]
        for node in self.five:
            node.side = 1
        for node in nodes:
            start_ms = self.engine.dice.uniform(0, PING_INTERVAL_MS)
            Replicator(self.network, node, has_synced=True).start(start_ms)
        self.recipient = Recipient(self.network, RECIPIENT, side=1, clock_error_ms=0, lag_ms=0)
        self.read_at_ms: dict[PayloadHash, int] = {}

    def send(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            message = Message(
                number=number,
                recipient=RECIPIENT,
                payload_hash=PayloadHash(number.to_bytes(32, "big")),
                side=0,
                accepted_at_ms=self.engine.now_ms,
            )
            Sender(self.network, message, clock_error_ms=0, lag_ms=0, stores_again=False).attempt()

    def cut_off(self, is_cut: bool) -> None:
        self.engine.is_partitioned = is_cut

    def poll(self) -> None:
        """Read every fifteen seconds, as long as the simulation runs."""
        self.recipient.poll(self._received, 15 * SECOND_MS)
        self.engine.after(15 * SECOND_MS, self.poll)

    def _received(self, payload_hash: PayloadHash) -> None:
        self.read_at_ms.setdefault(payload_hash, self.engine.now_ms)


@clause("7.3", "7.9")
@pytest.mark.parametrize("seed", range(5))
def test_mail_stored_while_the_five_were_silent_is_read_a_minute_after_they_answer(seed: int) -> None:
    world = World(seed)
    world.engine.at(SENT_AT_MS, world.cut_off, True)
    world.engine.at(SENT_AT_MS + SECOND_MS, partial(world.send, range(20)))
    world.engine.at(HEALED_AT_MS, world.cut_off, False)
    world.engine.at(START_MS, world.poll)
    world.engine.run(HEALED_AT_MS - 1)
    assert len(world.network.receipts) >= 2 * 20, "farther nodes signed receipts"
    assert world.read_at_ms == {}
    world.engine.run(HEALED_AT_MS + 2 * MINUTE_MS)
    assert len(world.read_at_ms) == 20
    assert max(world.read_at_ms.values()) <= HEALED_AT_MS + 80 * SECOND_MS
