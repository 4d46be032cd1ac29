"""A simulated client that sends and receives through circuits: subscribed at the nodes of its inbox, and polling."""

from collections.abc import Callable
from functools import partial
from typing import Final

from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.mesh.placement import place
from restante.policy.mesh.polling import poll_interval_ms
from restante.policy.mesh.time_buckets import bucket_at
from restante.policy.retry import RetrySchedule, next_attempt_at
from restante.testing.circuit_simulation.hop import Subscribed, World
from restante.testing.circuit_simulation.pool import SimulatedPool
from restante.testing.circuit_simulation.transport import CircuitTransport
from restante.testing.mesh_simulation.clients import Message, Recipient, Sender, inbox_key_in
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import Answered, Failed, Handle

COPIES: Final = 5
ENOUGH_PUSH: Final = 3
"""With so many subscriptions of the five a recipient polls once a minute only."""
SUBSCRIBE_AGAIN_MS: Final = 1_000
SCHEDULE: Final = RetrySchedule()


class Person(Recipient):
    """Receives like a `Recipient`, over circuits, and shows each message once."""

    def __init__(self, network: NetworkMap, world: World, number: int, *, side: int) -> None:
        super().__init__(network, number, side=side, clock_error_ms=0, lag_ms=0)
        self.shown: set[PayloadHash] = set()
        self.again = 0
        self.on_shown: Callable[[PayloadHash], None] = lambda _hash: None
        self._world = world
        nodes = [each.node.descriptor for each in world.hops.values()]
        self._pool = SimulatedPool(world, self, nodes, CircuitLimits())
        self.transport = CircuitTransport(world, self._pool)
        self.transport.on_push = self._pushed
        self.transport.on_inner_lost = self._lost
        self._subscribed: dict[NodeId, InboxKey] = {}
        self._subscribing: set[NodeId] = set()
        self._keep_subscribed()
        self._read_on()

    @property
    def pool(self) -> SimulatedPool:
        return self._pool

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        self.transport.request(node, handle, answered, failed)

    def _received(self, payload_hash: PayloadHash) -> None:
        if payload_hash in self.shown:
            self.again += 1
            return
        self.shown.add(payload_hash)
        self.on_shown(payload_hash)

    def _read_on(self) -> None:
        """Read what is due, then again after the interval of the policy."""
        interval_ms = poll_interval_ms(is_subscribed=len(self._subscribed) >= ENOUGH_PUSH)
        self.poll(self._received, interval_ms)
        self._world.engine.after(interval_ms, self._read_on)

    def _keep_subscribed(self) -> None:
        """Subscribe at each of the five nodes that does not push to this client now."""
        engine = self._world.engine
        bucket = bucket_at(engine.now_ms)
        key = inbox_key_in(self.number, bucket)
        index = self._network.client_index(self.side, lag_ms=0, client=f"recipient {self.number}")
        for each in place(index, key, COPIES):
            if self._subscribed.get(each.node_id) != key and each.node_id not in self._subscribing:
                self._subscribe(each.node_id, key, bucket)
        engine.after(SUBSCRIBE_AGAIN_MS, self._keep_subscribed)

    def _subscribe(self, node_id: NodeId, key: InboxKey, bucket: int) -> None:
        node = self._network.nodes[node_id]
        self._subscribing.add(node_id)

        def answered(answer: Subscribed) -> None:
            self._subscribing.discard(node_id)
            self._subscribed[node_id] = key
            for each in answer.hashes:
                self._take(each, key, bucket)

        def failed() -> None:
            self._subscribing.discard(node_id)

        self.request(node, lambda: Subscribed(key, tuple(node.held.get(key, ()))), answered, failed)

    def _lost(self, node_id: NodeId) -> None:
        self._subscribed.pop(node_id, None)

    def _pushed(self, node_id: NodeId, payload_hash: PayloadHash) -> None:
        key = self._subscribed.get(node_id)
        if key is not None:
            self._take(payload_hash, key, bucket_at(self._world.engine.now_ms))

    def _take(self, payload_hash: PayloadHash, key: InboxKey, bucket: int) -> None:
        """Show a new message, and delete it at the five nodes."""
        if payload_hash in self.known(bucket):
            self.again += 1
            return
        self.known(bucket).add(payload_hash)
        self._received(payload_hash)
        index = self._network.client_index(self.side, lag_ms=0, client=f"recipient {self.number}")
        for each in place(index, key, COPIES):
            node = self._network.nodes[each.node_id]
            self.request(node, partial(node.delete, key, (payload_hash,)), lambda _answer: None, lambda: None)


class CircuitSender(Sender):
    """Stores one message over the circuits of a person, with the outbox's retry schedule (SPEC 4.1)."""

    def __init__(self, network: NetworkMap, world: World, message: Message, person: Person) -> None:
        super().__init__(network, message, clock_error_ms=0, lag_ms=0, stores_again=False)
        self._world = world
        self._person = person
        self._number = message.number

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        self._person.transport.put(self._number, node, handle, answered, failed)

    def retry_ms(self) -> float:
        now_ms = self._world.engine.now_ms
        at_ms = next_attempt_at(SCHEDULE, attempts=self._attempt, now_ms=now_ms, dice=self._world.dice.uniform(-1, 1))
        return SCHEDULE.max_delay_ms if at_ms is None else at_ms - now_ms
