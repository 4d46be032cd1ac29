"""Stores messages in the mesh: hosts `core.store_quorum` over connections to nodes (SPEC 7.3, 7.8, 7.10).

A message is stored once two nodes that the client named itself have signed receipts for exactly its bytes. Every
receipt is returned, to be journaled as evidence.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from restante.client.circuits.circuit import CircuitFailed
from restante.client.mesh.directory import MeshDirectory
from restante.core import store_quorum
from restante.core.directory.vouchers import Named
from restante.core.inboxes.mesh_inbox import BucketKeys, bucket_keys, build_mesh_envelope
from restante.core.mesh_proofs.receipts import evidence_of
from restante.core.store_quorum import (
    Event,
    Finish,
    Moved,
    MoveTo,
    NotAsked,
    NotResponsibleAnswered,
    PassOver,
    Put,
    PutFailed,
    ReceiptVerified,
    StoreQuorum,
    TimePassed,
    WakeAt,
    WrongBucketAnswered,
)
from restante.model.errors import RestanteError
from restante.model.ids import Address, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.model.outbox_entry import OutboxEntry
from restante.policy.failures import Failure, failure_of_refusal
from restante.policy.mesh.placement import MOST_TRIED
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.carrier import StoredByNode
from restante.ports.mesh_connection import PutAnswer
from restante.ports.relay_connection import AttemptFailed
from restante.wire.frames.mesh_storage import NotResponsible, WrongBucket
from restante.wire.storage_receipts import StorageReceipt

GRACE_S: Final = 0.25
"""How long an attempt that has three copies waits for the receipts of the other nodes."""


@dataclass(slots=True)
class _Attempt:
    """One message on its way: the machine's state, the envelope of the current bucket, and the receipts for it."""

    entry: OutboxEntry
    recipient: Address
    access_secret: bytes
    state: StoreQuorum
    keys: BucketKeys
    envelope: bytes
    events: "asyncio.Queue[tuple[int, Event]]" = field(default_factory=asyncio.Queue)
    receipts: dict[NodeId, StorageReceipt] = field(default_factory=dict)
    puts: set[asyncio.Task[None]] = field(default_factory=set)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    problems: dict[NodeId, AttemptFailed] = field(default_factory=dict)
    better: list[Named] = field(default_factory=list)
    """What nodes that are not responsible named instead of themselves."""
    was_reached: bool = False
    is_finished: bool = False


class MeshStorage:
    """Stores for any recipient. `close` ends puts whose receipts no caller waits for."""

    def __init__(self, directory: MeshDirectory) -> None:
        self._directory = directory
        self._passed_over: dict[NodeId, int] = {}
        self._late: set[asyncio.Task[None]] = set()
        self.last_failure: tuple[int, AttemptFailed] | None = None
        """When an attempt failed last, and where (SPEC 11.7): the outbox keeps only its code."""

    def can_try(self) -> bool:
        """Return whether any node of the mesh is known."""
        return self._directory.is_configured

    async def store(self, entry: OutboxEntry, *, recipient: Address, access_secret: bytes) -> tuple[StoredByNode, ...]:
        """Store the entry's sealed bytes. Raises `AttemptFailed` if fewer than two nodes have signed for them."""
        try:
            return await self._store(entry, recipient, access_secret)
        except AttemptFailed as failed:
            self.last_failure = self._directory.now_ms(), failed
            raise

    async def _store(self, entry: OutboxEntry, recipient: Address, access_secret: bytes) -> tuple[StoredByNode, ...]:
        async with self._directory.connections.storing(len(entry.payload)):
            attempt, effects = await self._begin(entry, recipient, access_secret)
            try:
                await self._run(attempt, effects)
            finally:
                for timer in attempt.timers:
                    timer.cancel()
                self._late |= {task for task in attempt.puts if not task.done()}
                for task in self._late:
                    task.add_done_callback(self._late.discard)
        if len(attempt.receipts) < store_quorum.WRITE_QUORUM:
            raise _failure_of(attempt)
        return tuple(StoredByNode(node, evidence_of(attempt.envelope, each)) for node, each in attempt.receipts.items())

    async def close(self) -> None:
        late = list(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _begin(
        self, entry: OutboxEntry, recipient: Address, access_secret: bytes
    ) -> tuple[_Attempt, Sequence[store_quorum.Effect]]:
        await self._directory.ensure_fresh()
        now_ms = self._directory.now_ms()
        bucket = bucket_at(now_ms)
        keys = bucket_keys(recipient, bucket, access_secret)
        order = await self._order(keys)
        state, effects = store_quorum.start(order, bucket=bucket, now_ms=now_ms, passed_over=self._passed(now_ms))
        envelope = self._envelope(entry, keys, now_ms)
        return _Attempt(entry, recipient, access_secret, state, keys, envelope), effects

    async def _run(self, attempt: _Attempt, effects: Sequence[store_quorum.Effect]) -> None:
        loop = asyncio.get_running_loop()
        grace_until_s: float | None = None
        while True:
            await self._execute(attempt, effects)
            if attempt.is_finished:
                return
            if grace_until_s is None and len(attempt.receipts) >= store_quorum.WANTED_COPIES:
                grace_until_s = loop.time() + GRACE_S
            try:
                async with asyncio.timeout_at(grace_until_s):
                    bucket, event = await attempt.events.get()
            except TimeoutError:
                return
            effects = ()
            if bucket == attempt.state.bucket:  # not an answer for a bucket that was given up
                attempt.state, effects = store_quorum.step(attempt.state, event, now_ms=self._directory.now_ms())

    async def _execute(self, attempt: _Attempt, effects: Sequence[store_quorum.Effect]) -> None:
        for effect in effects:
            match effect:
                case Put(node):
                    task = asyncio.create_task(self._put(attempt, node, attempt.state.bucket, attempt.envelope))
                    attempt.puts.add(task)
                    task.add_done_callback(attempt.puts.discard)
                case MoveTo(bucket):
                    attempt.keys = bucket_keys(attempt.recipient, bucket, attempt.access_secret)
                    attempt.envelope = self._envelope(attempt.entry, attempt.keys, self._directory.now_ms())
                    attempt.receipts.clear()
                    attempt.events.put_nowait((bucket, Moved(await self._order(attempt.keys))))
                case PassOver(node, until_ms):
                    if not isinstance(attempt.problems.get(node), CircuitFailed):  # else no node is to blame
                        self._passed_over[node] = until_ms
                case WakeAt(at_ms):
                    delay_s = max(0, at_ms - self._directory.now_ms()) / 1_000
                    wake = (attempt.state.bucket, TimePassed())
                    timer = asyncio.get_running_loop().call_later(delay_s, attempt.events.put_nowait, wake)
                    attempt.timers.append(timer)
                case Finish():
                    attempt.is_finished = True

    async def _put(self, attempt: _Attempt, node: NodeId, bucket: int, envelope: bytes) -> None:
        """Put to one node and report its answer."""
        event: Event = PutFailed(node)
        descriptor = self._directory.get(node)
        blinded = attempt.keys.blinded
        try:
            if descriptor is not None:
                answer = await self._directory.connections.put(descriptor, blinded, bucket, envelope)
                attempt.was_reached = True
                event = self._understood(attempt, node, bucket, answer)
        except AttemptFailed as failed:
            attempt.was_reached |= failed.reached
            attempt.problems[node] = failed
            event = NotAsked(node) if isinstance(failed, CircuitFailed) else event
        attempt.events.put_nowait((bucket, event))

    def _understood(self, attempt: _Attempt, node: NodeId, bucket: int, answer: PutAnswer) -> Event:
        if isinstance(answer, StorageReceipt):
            if bucket == attempt.state.bucket:
                attempt.receipts[node] = answer
            return ReceiptVerified(node)
        family = self._directory.family_of(node)
        times = list[tuple[int, frozenset[bytes]]]()
        for frame, exit_id in answer:
            through = self._directory.parties_of(exit_id)
            match frame:
                case WrongBucket():
                    times.append((frame.time_ms, through))
                case NotResponsible():
                    better = self._directory.verified(frame.descriptors)
                    attempt.better.append(Named(family, better, through))
        if times:
            return _wrong_bucket(node, times)
        self._directory.suggest(attempt.better)
        return NotResponsibleAnswered(node, _ids(self._directory.place(attempt.keys.inbox_key, MOST_TRIED)))

    async def _order(self, keys: BucketKeys) -> tuple[NodeId, ...]:
        return _ids(await self._directory.find(keys.inbox_key, MOST_TRIED))

    def _passed(self, now_ms: int) -> tuple[NodeId, ...]:
        self._passed_over = {node: until for node, until in self._passed_over.items() if until > now_ms}
        return tuple(sorted(self._passed_over, key=self._passed_over.__getitem__))

    def _envelope(self, entry: OutboxEntry, keys: BucketKeys, now_ms: int) -> bytes:
        try:
            return build_mesh_envelope(
                entry.payload,
                inbox_key=keys.inbox_key,
                kind=entry.kind,
                expires_at_ms=entry.expires_at_ms,
                now_ms=now_ms,
            )
        except RestanteError as problem:
            raise AttemptFailed(str(problem), failure=failure_of_refusal(problem.code, permanent=True)) from problem


def _wrong_bucket(node: NodeId, times: Sequence[tuple[int, frozenset[bytes]]]) -> WrongBucketAnswered:
    """Return the bucket that was named last. Two exits that name the same can't both have made it up."""
    time_ms, _ = times[-1]
    through = frozenset.intersection(*(each for named, each in times if bucket_at(named) == bucket_at(time_ms)))
    return WrongBucketAnswered(node, time_ms, through)


def _failure_of(attempt: _Attempt) -> AttemptFailed:
    """Return what failed: the circuits, if no node could be asked because of them, else too few receipts, with the
    reason of each node (SPEC 11.7)."""
    problems = list(attempt.problems.values())
    if problems and all(isinstance(each, CircuitFailed) for each in problems):
        return problems[0]
    reasons = "; ".join(sorted({str(each) for each in problems}))
    stored = f"{len(attempt.receipts)} nodes stored the message, at least {store_quorum.WRITE_QUORUM} must"
    return AttemptFailed(
        f"{stored}: {reasons}" if reasons else stored,
        failure=Failure.INSUFFICIENT_REPLICATION,
        reached=attempt.was_reached,
    )


def _ids(nodes: Sequence[NodeDescriptor]) -> tuple[NodeId, ...]:
    return tuple(each.node_id for each in nodes)
