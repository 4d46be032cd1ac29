"""A whole mesh with its senders and recipients, its crashes, partitions and lies (NETWORK 5)."""

import hashlib
from typing import Final

from restante.core.mailbox_poll import buckets
from restante.core.replication import serving
from restante.core.replication.serving import Serving
from restante.model.ids import PayloadHash
from restante.policy.mesh.network_time import MOST_PEERS, PeerOffset, agree
from restante.policy.mesh.repair import PING_INTERVAL_MS
from restante.testing.mesh_simulation.clients import Message, Recipient, Sender
from restante.testing.mesh_simulation.directory_view import DirectoryView
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.repair import Replicator
from restante.testing.mesh_simulation.values import (
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    Lie,
    MeshSettings,
    SimulationResult,
)

RESTART_MS: Final = 10 * MINUTE_MS
LAST_HOURS_MS: Final = 3 * HOUR_MS
FAR_OFF_MS: Final = 2 * HOUR_MS
"""How wrong one clock in twenty is."""


class MeshSimulation:
    """Build with settings and a seed, `run` once."""

    def __init__(self, settings: MeshSettings, seed: int) -> None:
        self.settings = settings
        self.result = SimulationResult(seed=seed, messages=settings.messages)
        self._engine = Engine(seed, delay_ms=settings.delay_ms, loss=settings.loss)
        self._living: list[SimulatedNode] = []
        self._all: list[SimulatedNode] = []
        self._directory = DirectoryView(self._engine, self._all)
        self._network = NetworkMap(
            engine=self._engine,
            directory=self._directory,
            result=self.result,
            directory_gap=settings.directory_gap,
        )
        self._recipients: list[Recipient] = []
        self._messages: list[Message] = []
        self._by_hash: dict[PayloadHash, Message] = {}

    def run(self) -> SimulationResult:
        self._build()
        self._engine.run(START_MS + self.settings.total_ms)
        self._count()
        return self.result

    def _build(self) -> None:
        settings, dice, engine = self.settings, self._engine.dice, self._engine
        for _ in range(settings.nodes):
            node = self._add_node()
            node.serving = Serving(phase=serving.Phase.SERVING)
            if dice.random() < settings.liars:
                node.lie = dice.choice(list(Lie))
                self.result.liars.add(node.number)
        self._directory.take()
        for node in self._all:
            Replicator(self._network, node, has_synced=True).start(dice.uniform(0, PING_INTERVAL_MS))
        for number in range(settings.recipients):
            recipient = Recipient(
                self._network, number, side=number % 2, clock_error_ms=self._clock_error_ms(), lag_ms=self._lag_ms()
            )
            self._recipients.append(recipient)
            self._go_online(recipient)
            engine.at(START_MS + settings.total_ms - LAST_HOURS_MS, self._poll, recipient, 10**14)
        for number in range(settings.messages):
            self._plan_message(number)
        for rate, happen in ((settings.churn_per_hour, self._churn), (settings.restarts_per_hour, self._restart)):
            if rate:
                happen(settings.nodes * rate)
        if settings.partition is not None:
            engine.at(START_MS + settings.partition.from_ms, self._part)
            engine.at(START_MS + settings.partition.until_ms, self._heal)

    def _add_node(self) -> SimulatedNode:
        number, settings = len(self._all), self.settings
        node = SimulatedNode(
            number,
            joined_at_ms=self._engine.now_ms,
            family=None if settings.families is None else number % settings.families,
            side=self._engine.dice.randrange(2),
        )
        node.clock_error_ms = self._clock_error_ms()
        self._all.append(node)
        self._living.append(node)
        self._network.nodes[node.node_id] = node
        self._network.lags_ms[node.node_id] = self._lag_ms()
        return node

    def _clock_error_ms(self) -> int:
        """Return what network time leaves of a random clock's error, by the real rule (SPEC 7.11)."""

        def clock() -> int:
            skew = self.settings.clock_skew_ms
            far = self._engine.dice.random() < 0.05
            return (
                self._engine.dice.choice((-FAR_OFF_MS, FAR_OFF_MS)) if far else self._engine.dice.randint(-skew, skew)
            )

        own = clock()
        peers = [PeerOffset(bytes([number]), clock() - own) for number in range(MOST_PEERS)]
        return own + agree(peers).offset_ms

    def _lag_ms(self) -> int:
        return self._engine.dice.randrange(3) * self.settings.directory_lag_ms // 2

    def _plan_message(self, number: int) -> None:
        settings, dice = self.settings, self._engine.dice
        message = Message(
            number=number,
            recipient=dice.randrange(settings.recipients),
            payload_hash=PayloadHash(hashlib.sha256(b"message %d" % number).digest()),
            side=dice.randrange(2),
            accepted_at_ms=START_MS + dice.randrange(settings.sending_ms),
        )
        self._messages.append(message)
        self._by_hash[message.payload_hash] = message
        sender = Sender(
            self._network,
            message,
            clock_error_ms=self._clock_error_ms(),
            lag_ms=self._lag_ms(),
            stores_again=settings.stores_again,
        )
        self._engine.at(message.accepted_at_ms, sender.attempt)

    def _go_online(self, recipient: Recipient) -> None:
        """Plan the next time online. For the last three hours all are, so that what can be read is read."""
        share, dice = self.settings.online_share, self._engine.dice
        online_ms = dice.expovariate(1 / (2 * HOUR_MS))
        pause_ms = dice.expovariate(1 / (2 * HOUR_MS * (1 - share) / share)) if share < 1 else 0.0
        self._engine.after(pause_ms, self._poll, recipient, self._engine.now_ms + int(pause_ms + online_ms))

    def _poll(self, recipient: Recipient, until_ms: int) -> None:
        recipient.poll(self._received, self.settings.poll_interval_ms)
        if self._engine.now_ms < until_ms:
            self._engine.after(self.settings.poll_interval_ms, self._poll, recipient, until_ms)
        else:
            self._go_online(recipient)

    def _received(self, payload_hash: PayloadHash) -> None:
        message = self._by_hash[payload_hash]
        message.reads += 1
        if message.reads == 1:
            self._engine.note("read", message.number)

    def _churn(self, per_hour: float) -> None:
        self._engine.after(self._engine.dice.expovariate(per_hour / HOUR_MS), self._replace_one, per_hour)

    def _replace_one(self, per_hour: float) -> None:
        """A node crashes for good, with its disk; a new one joins."""
        gone = self._engine.dice.choice(self._living)
        self._crash(gone)
        # The first minute brings the node into the directory of its neighbours.
        Replicator(self._network, self._add_node()).start(MINUTE_MS)
        lasts_ms = self.settings.total_ms if self.settings.churn_ms is None else self.settings.churn_ms
        if self._engine.now_ms < START_MS + lasts_ms:
            self._churn(per_hour)

    def _restart(self, per_hour: float) -> None:
        self._engine.after(self._engine.dice.expovariate(per_hour / HOUR_MS), self._restart_one, per_hour)

    def _restart_one(self, per_hour: float) -> None:
        node = self._engine.dice.choice(self._living)
        self._crash(node)
        self._engine.after(RESTART_MS, self._come_back, node)
        self._restart(per_hour)

    def _crash(self, node: SimulatedNode) -> None:
        node.is_alive = False
        node.died_at_ms = self._engine.now_ms
        self._living.remove(node)
        self.result.crashes += 1
        self._engine.note("crash", node.number)

    def _come_back(self, node: SimulatedNode) -> None:
        node.is_alive = True
        node.serving = Serving()
        node.lives += 1
        self._living.append(node)
        self._engine.note("back", node.number)
        Replicator(self._network, node).start(0)

    def _part(self) -> None:
        self._engine.is_partitioned = True
        self._engine.note("part")

    def _heal(self) -> None:
        self._engine.is_partitioned = False
        self._engine.note("heal")

    def _count(self) -> None:
        result = self.result
        for message in self._messages:
            result.fetched_twice += max(0, message.reads - 1)
            if message.reads:
                result.read += 1
            elif not message.is_sent:
                result.unsent += 1
            elif not (held := self._held_buckets(message)):
                result.lost += 1
            elif any(self._is_open(message, bucket) for bucket in held):
                result.unread += 1
            else:
                result.wrongly_finalized += 1
        result.requests = self._engine.requests
        result.events = self._engine.events
        result.trace = self._engine.trace

    def _held_buckets(self, message: Message) -> list[int]:
        return [
            bucket
            for key, bucket in message.keys
            if any(message.payload_hash in node.held.get(key, ()) and node.lie is None for node in self._living)
        ]

    def _is_open(self, message: Message, bucket: int) -> bool:
        state = self._recipients[message.recipient].buckets.get(bucket)
        return state is None or state.phase is not buckets.Phase.FINAL
