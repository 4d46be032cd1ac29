"""People who write to each other through circuits, while nodes crash, drop cells and lose each other (SPEC 1.7)."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from restante.core.decrypted_messages import DecryptedMessage
from restante.core.replication import serving
from restante.core.replication.serving import Serving
from restante.crypto.onion import onion_public_key
from restante.model.ids import Address, InboxKey, MessageId, PayloadHash, SessionId
from restante.model.kinds import Kind, TtlType
from restante.policy.mesh.repair import PING_INTERVAL_MS
from restante.testing.circuit_simulation.bound import cut_off_ms
from restante.testing.circuit_simulation.hop import HopNode
from restante.testing.circuit_simulation.inbox import SimulatedInbox
from restante.testing.circuit_simulation.person import CircuitSender, Person
from restante.testing.circuit_simulation.transport import SEALED_BYTES
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.clients import Message
from restante.testing.mesh_simulation.directory_view import DirectoryView
from restante.testing.mesh_simulation.engine import Engine
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.repair import Replicator
from restante.testing.mesh_simulation.values import HOUR_MS, MINUTE_MS, START_MS, SimulationResult
from restante.wire.ttl_header import TtlHeader

LINKS: Final = 8
"""Sender, guard, middle, exit, node, exit, middle, guard, recipient."""
WARM_UP_MS: Final = 2 * MINUTE_MS
PARTITION_MS: Final = 30_000
NEVER_MS: Final = 10**12
TTL_S: Final = 30 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitSettings:
    """A world. Times count from the start of the simulation."""

    nodes: int = 40
    people: int = 12
    messages: int = 2_000
    sending_ms: int = 9 * HOUR_MS
    """Messages are sent at random moments of this time, after two minutes."""
    total_ms: int = 10 * HOUR_MS
    link_ms: float = 50.0
    """The median delay of a link."""
    crashes_per_minute: float = 0.05
    """The share of nodes that crash in a minute and come back with their disk."""
    down_ms: tuple[int, int] = (30_000, 120_000)
    dropping_hops: float = 0.05
    """The share of nodes that lose cells."""
    drop_rate: float = 0.01
    """How many of the cells that pass it such a node loses."""
    has_partitions: bool = True
    """Once an hour the two halves of nodes and people lose each other for 30 s."""

    def without_faults(self) -> "CircuitSettings":
        return CircuitSettings(
            nodes=self.nodes,
            people=self.people,
            messages=self.messages,
            sending_ms=self.sending_ms,
            total_ms=self.total_ms,
            link_ms=self.link_ms,
            crashes_per_minute=0.0,
            dropping_hops=0.0,
            has_partitions=False,
        )


@dataclass(slots=True, kw_only=True)
class CircuitResult:
    """What became of the messages. Every accepted one is in exactly one of read, stored and unsent."""

    seed: int
    messages: int
    read: int = 0
    stored: int = 0
    """The quorum was reached, a living node holds it, and it is not read yet."""
    unsent: int = 0
    """It waits in its sender's outbox."""
    lost: int = 0
    shown_twice: int = 0
    shown_out_of_order: int = 0
    """Shown after a later message of the same sender without the mark that it is late."""
    late: int = 0
    """Shown with that mark, because the gap before it was skipped after five minutes."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """What the recipients' rules said about each arrival; five nodes push each message."""
    gaps: int = 0
    latencies_ms: list[int] = field(default_factory=list)
    """From acceptance to the reader."""
    cut_off_ms: list[int] = field(default_factory=list)
    """How long partitions alone kept each message from its recipient (`bound`)."""
    crashes: int = 0
    cells_dropped: int = 0
    circuits_built: int = 0
    builds_failed: int = 0
    circuits_silent: int = 0
    events: int = 0
    trace: str = ""

    @property
    def is_balanced(self) -> bool:
        return self.lost == 0 and self.messages == self.read + self.stored + self.unsent

    def quantile_ms(self, share: float) -> int:
        """Return within which time this share of all messages was read. One that was not read took forever."""
        unread = [NEVER_MS] * (self.messages - len(self.latencies_ms))
        return _quantile(self.latencies_ms + unread, share)

    def possible_ms(self, share: float) -> int:
        """Return within which time this share could have been read at best: partitions hold up the rest for longer."""
        return _quantile(self.cut_off_ms, share)

    def delivered_within(self, limit_ms: int) -> float:
        """Return the share of all messages that were read within this time."""
        return sum(each <= limit_ms for each in self.latencies_ms) / self.messages


def _quantile(times_ms: list[int], share: float) -> int:
    return sorted(times_ms)[min(len(times_ms) - 1, int(share * len(times_ms)))]


class _PushingNetwork(NetworkMap):
    """Nodes push what is put to them, or copied, to those who subscribed."""

    world: World

    def stored(self, key: InboxKey, bucket: int, node: SimulatedNode, payload_hash: PayloadHash) -> None:
        super().stored(key, bucket, node, payload_hash)
        self.copied(key, node, payload_hash)

    def copied(self, key: InboxKey, node: SimulatedNode, payload_hash: PayloadHash) -> None:
        if payload_hash in node.held.get(key, ()):
            self.world.hops[node.node_id].push(key, payload_hash)


class CircuitSimulation:
    """Build with settings and a seed, `run` once."""

    def __init__(self, settings: CircuitSettings, seed: int) -> None:
        self.settings = settings
        self.result = CircuitResult(seed=seed, messages=settings.messages)
        self._engine = Engine(seed, delay_ms=settings.link_ms, loss=0.0)
        self._world = World(self._engine)
        self._nodes: list[SimulatedNode] = []
        self._directory = DirectoryView(self._engine, self._nodes)
        inner = SimulationResult(seed=seed, messages=settings.messages)
        self._network = _PushingNetwork(engine=self._engine, directory=self._directory, result=inner)
        self._network.world = self._world
        self._people: list[Person] = []
        self._messages: list[Message] = []
        self._by_hash: dict[PayloadHash, Message] = {}
        self._written: dict[PayloadHash, DecryptedMessage] = {}
        self._sequences: Counter[tuple[int, int]] = Counter()
        self._inboxes: list[SimulatedInbox] = []
        self._last_shown: dict[tuple[int, Address], int] = {}

    def run(self) -> CircuitResult:
        self._build()
        self._engine.run(START_MS + self.settings.total_ms)
        self._count()
        return self.result

    def _build(self) -> None:
        settings, engine = self.settings, self._engine
        droppers = round(settings.nodes * settings.dropping_hops)
        for number in range(settings.nodes):
            self._add_node(number, drop_rate=settings.drop_rate if number < droppers else 0.0)
        self._directory.take()
        for node in self._nodes:
            Replicator(self._network, node, has_synced=True).start(engine.dice.uniform(0, PING_INTERVAL_MS))
        for number in range(settings.people):
            person = Person(self._network, self._world, number, side=number % 2)
            inbox = SimulatedInbox(engine, partial(self._shown, number))
            person.on_arrived = partial(self._arrived, inbox)
            self._people.append(person)
            self._inboxes.append(inbox)
        for number in range(settings.messages):
            self._plan_message(number)
        if settings.crashes_per_minute:
            self._plan_crash()
        partitions = []
        for hour in range(settings.total_ms // HOUR_MS if settings.has_partitions else 0):
            at_ms = START_MS + hour * HOUR_MS + engine.dice.randrange(WARM_UP_MS, HOUR_MS - 10 * MINUTE_MS)
            engine.at(at_ms, self._set_partitioned, True)
            engine.at(at_ms + PARTITION_MS, self._set_partitioned, False)
            partitions.append((at_ms, at_ms + PARTITION_MS))
        self.result.cut_off_ms = [
            cut_off_ms(
                message.accepted_at_ms,
                sides=(message.side, self._people[message.recipient].side),
                partitions=partitions,
            )
            for message in self._messages
        ]

    def _add_node(self, number: int, *, drop_rate: float) -> None:
        private = hashlib.sha256(b"onion key %d" % number).digest()
        node = SimulatedNode(
            number,
            joined_at_ms=self._engine.now_ms,
            family=None,
            side=number % 2,
            onion_key=onion_public_key(private),
        )
        node.serving = Serving(phase=serving.Phase.SERVING)
        self._nodes.append(node)
        self._network.nodes[node.node_id] = node
        self._network.lags_ms[node.node_id] = 0
        self._world.hops[node.node_id] = HopNode(node, self._world, private_key=private, drop_rate=drop_rate)

    def _plan_message(self, number: int) -> None:
        dice, settings = self._engine.dice, self.settings
        sender, recipient = dice.sample(range(settings.people), 2)
        message = Message(
            number=number,
            recipient=recipient,
            payload_hash=PayloadHash(hashlib.sha256(b"message %d" % number).digest()),
            side=self._people[sender].side,
            accepted_at_ms=START_MS + WARM_UP_MS + dice.randrange(settings.sending_ms),
        )
        self._messages.append(message)
        self._by_hash[message.payload_hash] = message
        self._engine.at(message.accepted_at_ms, self._accept, message, sender)

    def _accept(self, message: Message, sender: int) -> None:
        """Number and encrypt the message, then store it."""
        pair = (sender, message.recipient)
        header = TtlHeader(message.accepted_at_ms, TTL_S, TtlType.ABSOLUTE)
        self._written[message.payload_hash] = DecryptedMessage(
            header,
            message_id=MessageId(b"message".ljust(12) + message.number.to_bytes(4, "big")),
            sender=Address(b"person".ljust(28) + sender.to_bytes(4, "big")),
            session_id=SessionId(hashlib.sha256(b"session %d %d" % pair).digest()),
            sequence=self._sequences[pair],
            kind=Kind.TEXT,
            body=b"message %d" % message.number,
            payload_hash=message.payload_hash,
            envelope_bytes=SEALED_BYTES,
        )
        self._sequences[pair] += 1
        CircuitSender(self._network, self._world, message, self._people[sender]).attempt()

    def _arrived(self, inbox: SimulatedInbox, payload_hash: PayloadHash) -> None:
        inbox.arrived(self._written[payload_hash])

    def _shown(self, person: int, shown: DecryptedMessage, is_late: bool) -> None:
        """The application of this person sees a message."""
        message = self._by_hash[shown.payload_hash]
        message.reads += 1
        self.result.late += is_late
        if not is_late:
            before = self._last_shown.get((person, shown.sender), -1)
            self.result.shown_out_of_order += shown.sequence < before
            self._last_shown[person, shown.sender] = max(before, shown.sequence)
        if message.reads == 1:
            self.result.latencies_ms.append(self._engine.now_ms - message.accepted_at_ms)
            self._engine.note("read", message.number)

    def _plan_crash(self) -> None:
        per_ms = self.settings.nodes * self.settings.crashes_per_minute / MINUTE_MS
        self._engine.after(self._engine.dice.expovariate(per_ms), self._crash)

    def _crash(self) -> None:
        node = self._engine.dice.choice([each for each in self._nodes if each.is_alive])
        node.is_alive = False
        node.died_at_ms = self._engine.now_ms
        self._world.hops[node.node_id].crash()
        self.result.crashes += 1
        self._engine.note("crash", node.number)
        self._engine.after(self._engine.dice.uniform(*self.settings.down_ms), self._come_back, node)
        self._plan_crash()

    def _come_back(self, node: SimulatedNode) -> None:
        node.is_alive = True
        node.serving = Serving()
        node.lives += 1
        self._engine.note("back", node.number)
        Replicator(self._network, node).start(0)

    def _set_partitioned(self, is_partitioned: bool) -> None:
        self._engine.is_partitioned = is_partitioned
        self._engine.note("partition", is_partitioned)

    def _count(self) -> None:
        result = self.result
        for message in self._messages:
            result.shown_twice += max(0, message.reads - 1)
            if message.reads:
                result.read += 1
            elif not message.is_sent:
                result.unsent += 1
            elif any(message.payload_hash in node.held.get(key, ()) for key, _ in message.keys for node in self._nodes):
                result.stored += 1
            else:
                result.lost += 1
        result.verdicts = dict(sum((each.verdicts for each in self._inboxes), Counter()))
        result.gaps = sum(each.gaps for each in self._inboxes)
        result.cells_dropped = self._world.drops
        result.circuits_built = sum(person.pool.built for person in self._people)
        result.builds_failed = sum(person.pool.failed for person in self._people)
        result.circuits_silent = sum(person.pool.silent for person in self._people)
        result.events = self._engine.events
        result.trace = self._engine.trace
