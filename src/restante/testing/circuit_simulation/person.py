"""A simulated client that sends and receives through circuits: subscribed at the nodes of its inbox, and polling.

It reads in passes, as client/mesh/receiver and inbox_poll do.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from restante.core.mailbox_poll import buckets as bucket_states
from restante.core.mailbox_poll.buckets import MailStored, ReadFinished
from restante.core.mailbox_poll.full_sync import OldestFirst
from restante.core.mailbox_poll.reading import ENOUGH_LISTS
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.failures import Failure, RetryAt, decide
from restante.policy.mesh.placement import COPIES, place
from restante.policy.mesh.polling import LISTS_WAIT_MS, TRUSTED_PUSHES, poll_interval_ms, wait_ms
from restante.policy.mesh.time_buckets import current_buckets, is_old
from restante.policy.retry import RetrySchedule
from restante.testing.circuit_simulation.hop import Subscribed
from restante.testing.circuit_simulation.pool import SimulatedPool
from restante.testing.circuit_simulation.transport import CircuitTransport
from restante.testing.circuit_simulation.world import World
from restante.testing.mesh_simulation.clients import Message, Reading, Recipient, Sender, inbox_key_in
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import SimulatedNode
from restante.testing.mesh_simulation.values import Answered, Failed, Handle

CIRCUIT_TRIES: Final = 3
"""As client/mesh/inbox_nodes."""
SCHEDULE: Final = RetrySchedule()


class Person(Recipient):
    """`on_arrived` gets every copy that comes, as often as it comes."""

    def __init__(self, network: NetworkMap, world: World, number: int, *, side: int) -> None:
        super().__init__(network, number, side=side, clock_error_ms=0, lag_ms=0)
        self.on_arrived: Callable[[PayloadHash], None] = lambda _hash: None
        self.passed_over: dict[NodeId, int] = {}
        self._world = world
        self._engine = world.engine
        nodes = [each.node.descriptor for each in world.hops.values()]
        self.pool = SimulatedPool(world, self, nodes, CircuitLimits())
        self.transport = CircuitTransport(world, self.pool)
        self.transport.on_push = self._pushed
        self.transport.on_lost = self._lost
        self._buckets_of: dict[InboxKey, int] = {}
        self._order = OldestFirst(())
        self._found: dict[int, list[PayloadHash]] = {}
        self._was_subscribed = False
        self._held: list[tuple[InboxKey, PayloadHash]] | None = None
        self._is_woken = False
        self._recent_reads: list[Reading] = []
        self._passes_unpushed = 0
        self._planned = 0
        self._read()

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        self.transport.connection(node.node_id).ask(handle, answered, failed)

    def request_list(
        self,
        node: SimulatedNode,
        bucket: int,
        handle: Handle,
        answered: Answered,
        failed: Failed,
    ) -> None:
        """Ask for a list, over another circuit if the first one fails."""
        left = CIRCUIT_TRIES

        def ask() -> None:
            nonlocal left
            left -= 1
            self._subscribe_or_list(node, bucket, handle, answered, again)

        def again(*, was_asked: bool = True) -> None:
            if was_asked or not left:
                failed(was_asked=was_asked)
            else:
                ask()

        ask()

    def _subscribe_or_list(
        self, node: SimulatedNode, bucket: int, handle: Handle, answered: Answered, failed: Failed
    ) -> None:
        """Subscribe as well, at a node among the five of a current bucket."""
        connection = self.transport.connection(node.node_id)
        is_current = bucket in current_buckets(self._engine.now_ms)
        if not is_current or bucket in connection.subscribed or node.node_id not in self._five(bucket):
            connection.ask(handle, answered, failed)
            return
        key = self._key(bucket)

        def subscribed(answer: Subscribed) -> None:
            connection.subscribed.add(bucket)
            answered(answer.listed)

        connection.ask(lambda: Subscribed(key, handle()), subscribed, failed)

    def finished(self, bucket: int, event: ReadFinished, _interval_ms: int) -> None:
        interval_ms = poll_interval_ms(
            is_subscribed=self._was_subscribed and self.is_subscribed,
            passes_unpushed=self._unpushed_now(),
        )
        super().finished(bucket, event, interval_ms)
        for _, hashes in self._order.finish(bucket, tuple(self._found.pop(bucket, ()))):
            for each in hashes:
                self.on_arrived(each)
        if not self._reading:
            self._read_is_over()

    @property
    def is_subscribed(self) -> bool:
        """Whether enough nodes push new mail of each current bucket."""
        index = self._network.client_index(self.side, lag_ms=0, client="")
        return self._is_pushed_to(bucket_states.needed_answers(len(index)))

    def _is_pushed_to(self, needed: int) -> bool:
        return all(self.transport.subscriptions(each) >= needed for each in current_buckets(self._engine.now_ms))

    def _unpushed_now(self) -> int:
        return 0 if self.is_subscribed else self._passes_unpushed + 1

    def _read(self) -> None:
        """Read all buckets that are due."""
        self._is_woken = False
        now_ms = self._engine.now_ms
        self.buckets = bucket_states.with_current(self.buckets, now_ms=now_ms, since=self._first)
        due = bucket_states.due(self.buckets, now_ms=now_ms)
        if not due:
            self._read_is_over()
            return
        self._was_subscribed = self.is_subscribed
        if not self._is_pushed_to(TRUSTED_PUSHES):
            self._held = []  # what this pass reads is older than what nodes push meanwhile
        self._order = OldestFirst(due)
        self._reading = set(due)
        self._recent_reads = []
        for bucket in due:
            found = self._found.setdefault(bucket, [])
            read = Reading(self, self._network, bucket, found.append, 0)
            read.begin()
            if is_old(bucket, now_ms=now_ms):
                continue
            self._recent_reads.append(read)
            if self._held is not None:
                self._engine.after(LISTS_WAIT_MS, read.lists_are_overdue, ENOUGH_LISTS)

    def _read_is_over(self) -> None:
        self._passes_unpushed = self._unpushed_now()
        held, self._held = self._held, None
        for key, payload_hash in held or ():
            self._pushed(key, payload_hash)
        pause_ms = wait_ms(
            next_read_at_ms=min(each.next_read_at_ms for each in self.buckets.values()),
            now_ms=self._engine.now_ms,
            interval_ms=poll_interval_ms(is_subscribed=self.is_subscribed),
        )
        self._plan_read(0 if self._is_woken else pause_ms)

    def _plan_read(self, delay_ms: int) -> None:
        self._planned += 1
        self._engine.after(delay_ms, self._read_as_planned, self._planned)

    def _read_as_planned(self, number: int) -> None:
        if number == self._planned and not self._reading:
            self._read()

    def _lost(self, lost: set[int]) -> None:
        """Subscriptions have ended, or soon will: read those buckets again now."""
        now_ms = self._engine.now_ms
        for number in lost & self.buckets.keys():
            state = self.buckets[number]
            self.buckets[number] = bucket_states.step(state, MailStored(), now_ms=now_ms, poll_interval_ms=0)
        self._is_woken = True
        if not self._reading:
            self._plan_read(0)
        elif self._held is None and not self._is_pushed_to(TRUSTED_PUSHES):
            for read in tuple(self._recent_reads):
                read.lists_are_overdue(0)

    def _pushed(self, key: InboxKey, payload_hash: PayloadHash) -> None:
        if self._held is not None:
            self._held.append((key, payload_hash))
            return
        bucket = self._buckets_of[key]
        is_new = payload_hash not in self.known(bucket)
        self.known(bucket).add(payload_hash)
        self.on_arrived(payload_hash)
        for node_id in self._five(bucket) if is_new else ():
            node = self._network.nodes[node_id]
            self.request(node, partial(node.delete, key, (payload_hash,)), lambda _answer: None, lambda **_: None)

    def _key(self, bucket: int) -> InboxKey:
        key = inbox_key_in(self.number, bucket)
        self._buckets_of[key] = bucket
        return key

    def _five(self, bucket: int) -> list[NodeId]:
        index = self._network.client_index(self.side, lag_ms=0, client="")
        return [each.node_id for each in place(index, self._key(bucket), COPIES)]


class CircuitSender(Sender):
    """Stores one message over the circuits of a person, with the outbox's retry schedule (SPEC 4.1)."""

    def __init__(self, network: NetworkMap, world: World, message: Message, person: Person) -> None:
        super().__init__(network, message, clock_error_ms=0, lag_ms=0, stores_again=False)
        self.passed_over = person.passed_over
        self._world = world
        self._person = person
        self._number = message.number

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        self._person.transport.put(self._number, node, handle, answered, failed)

    def retry_ms(self) -> float:
        now_ms = self._world.engine.now_ms
        decision = decide(
            Failure.INSUFFICIENT_REPLICATION,
            attempts=0,
            failures=self._attempt,
            now_ms=now_ms,
            dice=self._world.dice.uniform(-1, 1),
            schedule=SCHEDULE,
            reached=False,
        )
        return decision.at_ms - now_ms if isinstance(decision, RetryAt) else SCHEDULE.max_delay_ms
