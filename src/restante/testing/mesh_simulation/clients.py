"""Simulated senders and recipients: they host core/store_quorum and core/mailbox_poll."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from restante.core import store_quorum
from restante.core.mailbox_poll import buckets, reading
from restante.core.mailbox_poll.buckets import Bucket, ReadFinished
from restante.core.replication.responsibility import Take
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import MOST_TRIED, RESPONSIBLE_WITHIN, place
from restante.policy.mesh.time_buckets import bucket_at
from restante.testing.mesh_simulation.network_map import NetworkMap
from restante.testing.mesh_simulation.node import ListAnswer, PutAnswer, SimulatedNode
from restante.testing.mesh_simulation.values import HOUR_MS, MINUTE_MS, Answered, Failed, Handle

RETRY_MS: Final = MINUTE_MS
STORE_AGAIN_MS: Final = 24 * HOUR_MS


def inbox_key_in(recipient: int, bucket: int) -> InboxKey:
    """Return the key of a simulated inbox. Blinding is not simulated."""
    return InboxKey(hashlib.sha256(b"inbox %d %d" % (recipient, bucket)).digest())


@dataclass(slots=True, kw_only=True)
class Message:
    number: int
    recipient: int
    payload_hash: PayloadHash
    side: int
    accepted_at_ms: int
    is_sent: bool = False
    reads: int = 0
    keys: list[tuple[InboxKey, int]] = field(default_factory=list)
    """Where it was stored: key and bucket of each attempt."""


class Sender:
    """Stores one message: attempts follow each other until one reaches the quorum."""

    def __init__(
        self, network: NetworkMap, message: Message, *, clock_error_ms: int, lag_ms: int, stores_again: bool
    ) -> None:
        self.side, self.is_alive = message.side, True
        self._network = network
        self._message = message
        self._clock_error_ms = clock_error_ms
        self._lag_ms = lag_ms
        self._stores_again = stores_again
        self._attempt = 0
        self._state, _ = store_quorum.start((), bucket=0, now_ms=0)
        self._key = InboxKey(b"")
        self.passed_over: dict[NodeId, int] = {}

    def attempt(self) -> None:
        engine = self._network.engine
        self._network.result.attempts += 1
        self._attempt += 1
        bucket = bucket_at(engine.now_ms + self._clock_error_ms)
        by_time = sorted(self.passed_over.items(), key=lambda each: each[1])
        passed_over = tuple(node for node, until_ms in by_time if until_ms > engine.now_ms)
        order = self._order(bucket, self._lag_ms)
        self._began_at_ms = engine.now_ms
        state, effects = store_quorum.start(order, bucket=bucket, now_ms=engine.now_ms, passed_over=passed_over)
        self._state = state
        self._execute(effects)

    def _order(self, bucket: int, lag_ms: int) -> tuple[NodeId, ...]:
        self._key = inbox_key_in(self._message.recipient, bucket)
        client = f"sender {self._message.number}"
        index = self._network.client_index(self.side, lag_ms=lag_ms, client=client)
        return tuple(node.node_id for node in place(index, self._key, MOST_TRIED))

    def _step(self, attempt: int, event: store_quorum.Event) -> None:
        if attempt != self._attempt:
            return
        self._state, effects = store_quorum.step(self._state, event, now_ms=self._network.engine.now_ms)
        self._execute(effects)

    def _execute(self, effects: tuple[store_quorum.Effect, ...]) -> None:
        engine, message = self._network.engine, self._message
        for effect in effects:
            match effect:
                case store_quorum.Put(node):
                    self._put(node)
                case store_quorum.MoveTo(bucket):
                    self._step(self._attempt, store_quorum.Moved(self._order(bucket, self._lag_ms)))
                case store_quorum.PassOver(node, until_ms):
                    self.passed_over[node] = until_ms
                case store_quorum.ReportSent():
                    if not message.is_sent:
                        self._network.result.store_ms.append(engine.now_ms - self._began_at_ms)
                    message.is_sent = True
                    engine.note("sent", message.number)
                    if self._stores_again:
                        self._stores_again = False
                        engine.after(STORE_AGAIN_MS, self._store_again)
                case store_quorum.WakeAt(at_ms):
                    engine.at(at_ms, self._step, self._attempt, store_quorum.TimePassed())
                case store_quorum.Finish(is_stored):
                    if not is_stored and not message.is_sent:
                        engine.after(self.retry_ms(), self.attempt)

    def _store_again(self) -> None:
        """The recipient's receipt is not simulated: an unread message has none."""
        if not self._message.reads:
            self.attempt()

    def _put(self, node_id: NodeId) -> None:
        node, bucket, key, attempt = self._network.nodes[node_id], self._state.bucket, self._key, self._attempt
        engine, payload_hash = self._network.engine, self._message.payload_hash

        def handle() -> PutAnswer:
            answer = node.put(self._network.view_of(node), key, payload_hash, bucket=bucket, now_ms=engine.now_ms)
            if answer.take is Take.ACCEPT:
                self._network.stored(key, bucket, node, payload_hash)
            return answer

        def answered(answer: PutAnswer) -> None:
            match answer.take:
                case Take.ACCEPT:
                    if (key, bucket) not in self._message.keys:
                        self._message.keys.append((key, bucket))
                    self._step(attempt, store_quorum.ReceiptVerified(node_id))
                case Take.WRONG_BUCKET:
                    self._step(attempt, store_quorum.WrongBucketAnswered(node_id, answer.time_ms))
                case Take.NOT_RESPONSIBLE:
                    order = self._order(bucket, 0)
                    self._step(attempt, store_quorum.NotResponsibleAnswered(node_id, order))

        def failed(*, was_asked: bool = True) -> None:
            event = store_quorum.PutFailed(node_id) if was_asked else store_quorum.NotAsked(node_id)
            self._step(attempt, event)

        self.request(node, handle, answered, failed)

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        """Put to a node directly. A sender that uses circuits does otherwise."""
        self._network.engine.request(self, node, handle, answered, failed)

    def retry_ms(self) -> float:
        """Return how long to wait after an attempt that failed."""
        return RETRY_MS


class Recipient:
    """Polls one inbox while it is online."""

    def __init__(self, network: NetworkMap, number: int, *, side: int, clock_error_ms: int, lag_ms: int) -> None:
        self.number, self.side, self.is_alive = number, side, True
        self.buckets: dict[int, Bucket] = {}
        self._network = network
        self._clock_error_ms = clock_error_ms
        self._lag_ms = lag_ms
        self._first = bucket_at(network.engine.now_ms) - 1
        self._known: dict[int, set[PayloadHash]] = {}
        self._reading: set[int] = set()

    def poll(self, received: Callable[[PayloadHash], None], poll_interval_ms: int) -> None:
        """Read every bucket that is due."""
        now_ms = self._network.engine.now_ms + self._clock_error_ms
        self.buckets = buckets.with_current(self.buckets, now_ms=now_ms, since=self._first)
        for bucket in buckets.due(self.buckets, now_ms=now_ms):
            if bucket not in self._reading:
                self._reading.add(bucket)
                Reading(self, self._network, bucket, received, poll_interval_ms).begin()

    def finished(self, bucket: int, event: ReadFinished, poll_interval_ms: int) -> None:
        self._reading.discard(bucket)
        now_ms = self._network.engine.now_ms + self._clock_error_ms
        if bucket in self.buckets:
            before = self.buckets[bucket]
            after = buckets.step(before, event, now_ms=now_ms, poll_interval_ms=poll_interval_ms)
            self.buckets[bucket] = after
            if after.phase is not before.phase:
                self._network.engine.note("bucket", self.number, bucket, str(after.phase))

    def request(self, node: SimulatedNode, handle: Handle, answered: Answered, failed: Failed) -> None:
        """Ask a node directly. A recipient that uses circuits does otherwise."""
        self._network.engine.request(self, node, handle, answered, failed)

    def request_list(
        self,
        node: SimulatedNode,
        bucket: int,  # noqa: ARG002 - one that subscribes needs it
        handle: Handle,
        answered: Answered,
        failed: Failed,
    ) -> None:
        """Ask a node what it lists for a bucket."""
        self.request(node, handle, answered, failed)

    def known(self, bucket: int) -> set[PayloadHash]:
        return self._known.setdefault(bucket, set())

    @property
    def clock_error_ms(self) -> int:
        return self._clock_error_ms

    @property
    def lag_ms(self) -> int:
        return self._lag_ms


class Reading:
    """One read of one bucket."""

    def __init__(
        self,
        recipient: Recipient,
        network: NetworkMap,
        bucket: int,
        received: Callable[[PayloadHash], None],
        poll_interval_ms: int,
    ) -> None:
        self._recipient = recipient
        self._network = network
        self._bucket = bucket
        self._received = received
        self._interval_ms = poll_interval_ms
        self._key = inbox_key_in(recipient.number, bucket)
        client = f"recipient {recipient.number}"
        self._index = network.client_index(recipient.side, lag_ms=recipient.lag_ms, client=client)
        self._began_at_ms = network.engine.now_ms + recipient.clock_error_ms
        order = [node.node_id for node in place(self._index, self._key, RESPONSIBLE_WITHIN)]
        self._state, self._first = reading.start(order, known=recipient.known(bucket))

    def begin(self) -> None:
        self._execute(self._first)

    def lists_are_overdue(self, enough: int) -> None:
        self._step(reading.ListsOverdue(enough))

    def _step(self, event: reading.Event) -> None:
        self._state, effects = reading.step(self._state, event)
        self._execute(effects)

    def _execute(self, effects: tuple[reading.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case reading.AskList(node):
                    self._ask(node)
                case reading.FetchBodies(node, hashes):
                    self._fetch(node, hashes)
                case reading.Finish():
                    self._finish(effect)

    def _ask(self, node_id: NodeId) -> None:
        node = self._network.nodes[node_id]

        def answered(answer: ListAnswer) -> None:
            self._step(reading.ListReceived(node_id, answer.hashes, answer.is_complete))

        def failed(*, was_asked: bool = True) -> None:
            self._step(reading.NodeSilent(node_id) if was_asked else reading.NotAsked(node_id))

        self._recipient.request_list(
            node,
            self._bucket,
            lambda: node.list(self._network.view_of(node), self._key),
            answered,
            failed,
        )

    def _fetch(self, node_id: NodeId, hashes: tuple[PayloadHash, ...]) -> None:
        node = self._network.nodes[node_id]

        def answered(sent: list[bool]) -> None:
            verified = frozenset(each for each, is_true in zip(hashes, sent, strict=True) if is_true)
            self._step(reading.BodiesReceived(node_id, hashes, verified))

        self._recipient.request(
            node,
            lambda: [node.sends_true_body(self._key, each) for each in hashes],
            answered,
            lambda **_: self._step(reading.NodeSilent(node_id)),
        )

    def _finish(self, finish: reading.Finish) -> None:
        recipient = self._recipient
        recipient.known(self._bucket).update(finish.hashes)
        for payload_hash in finish.hashes:
            self._received(payload_hash)
        for node_id, payload_hash in finish.missing_at:
            # Without an earlier receipt of the node its silence is no evidence: it may not have had the blob yet.
            number = self._network.nodes[node_id].number
            began_at_ms = self._began_at_ms - recipient.clock_error_ms
            if self._network.receipts.get((number, self._key, payload_hash), began_at_ms) < began_at_ms:
                self._network.result.accused.add(number)
        if finish.hashes:
            for node_id in finish.delete_at:
                self._delete(node_id, finish.hashes)
        event = ReadFinished(self._began_at_ms, finish.counted, len(self._index), finish.is_whole)
        recipient.finished(self._bucket, event, self._interval_ms)

    def _delete(self, node_id: NodeId, hashes: tuple[PayloadHash, ...]) -> None:
        node = self._network.nodes[node_id]
        self._recipient.request(
            node,
            lambda: node.delete(self._key, hashes),
            lambda _: None,
            lambda **_: None,
        )
