"""Puts through circuits: those of one message to several nodes are one STORE, uploaded once (SPEC 11.6).

An exit is trusted with nothing: each receipt is verified against the leaf of the envelope that this client built, and
an exit that passes on anything else is left out of later circuits.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from restante.client.circuits.circuit import CircuitFailed, ClientCircuit, NoHopsLeft, short_key
from restante.client.circuits.pool import CircuitPool
from restante.core.circuit.pool import STORES
from restante.core.mesh_proofs.receipts import is_receipt_for, leaf_of
from restante.model.errors import RestanteError
from restante.model.ids import BlindedKey, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.failures import Failure, failure_of_refusal
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.circuit.streams import MAX_STORE_NODES, NO_ANSWER, StoreAnswer, StoreRequest
from restante.wire.envelope import decode_envelope
from restante.wire.frames.codec import FrameType, Refused
from restante.wire.frames.mesh import decode_mesh_body
from restante.wire.frames.mesh_storage import MeshStored, NotResponsible, WrongBucket
from restante.wire.storage_receipts import StorageReceipt

TRIES: Final = 6
"""Circuits that one message is uploaded over before the attempt fails: in a small mesh its nodes are hops of most."""

Answer = StorageReceipt | WrongBucket | NotResponsible


@dataclass(slots=True)
class _Batch:
    """One message and the nodes that have not answered yet."""

    blinded: BlindedKey
    bucket: int
    envelope: bytes
    waiting: dict[NodeId, tuple[NodeDescriptor, asyncio.Future[Answer]]] = field(default_factory=dict)


class StoreFanout:
    def __init__(self, pool: CircuitPool) -> None:
        self._pool = pool
        self._batches: dict[tuple[BlindedKey, int, bytes], _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> Answer:
        """Put to one node. Puts of the same envelope in one turn of the loop share an upload."""
        key = (blinded, bucket, envelope)
        batch = self._batches.get(key)
        if batch is None or len(batch.waiting) >= MAX_STORE_NODES:
            batch = self._batches[key] = _Batch(*key)
            asyncio.get_running_loop().call_soon(self._send, key, batch)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        batch.waiting[node.node_id] = node, answer
        return await answer

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self, key: tuple[BlindedKey, int, bytes], batch: _Batch) -> None:
        if self._batches.get(key) is batch:
            del self._batches[key]
        task = asyncio.create_task(self._store(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store(self, batch: _Batch) -> None:
        failed: AttemptFailed = _circuit_ended()
        avoid: frozenset[NodeId] = frozenset()
        try:
            for _ in range(TRIES):
                named = frozenset(batch.waiting)
                if not named:
                    return
                try:
                    circuit = await self._pool.acquire(STORES, avoid=avoid, prefer_not=named)
                except NoHopsLeft:
                    if len(avoid) < 2:
                        raise
                    avoid = frozenset(list(batch.waiting)[:1])  # the others get further STOREs
                    continue
                try:
                    await self._store_over(circuit, batch)
                except ConnectionLost:
                    failed = _circuit_ended()
                except CircuitFailed as problem:
                    failed = problem
                avoid = frozenset(batch.waiting)  # nodes that are hops of the first circuit get a further STORE
        except AttemptFailed as problem:
            failed = problem
        finally:
            for _, answer in batch.waiting.values():
                _settle(answer, failed)

    async def _store_over(self, circuit: ClientCircuit, batch: _Batch) -> None:
        """Upload to all nodes that are no hop of this circuit, and settle their answers."""
        nodes = tuple(each for each in batch.waiting if each not in circuit.hops)
        if not nodes:
            return
        request = StoreRequest(nodes, batch.blinded, batch.bucket, batch.envelope)
        async for answer in circuit.store(request):
            if answer.place >= len(nodes) or nodes[answer.place] not in batch.waiting:
                continue  # an exit that answers twice says nothing new
            descriptor, future = batch.waiting.pop(nodes[answer.place])
            _settle(future, self._verified(circuit, descriptor, batch, answer))

    def _verified(
        self, circuit: ClientCircuit, node: NodeDescriptor, batch: _Batch, answer: StoreAnswer
    ) -> Answer | AttemptFailed:
        if answer.frame_type == NO_ANSWER:
            text = f"the node {short_key(node.node_id)} can't be reached from the exit {short_key(circuit.hops[-1])}"
            return AttemptFailed(text, failure=Failure.CONNECTION_REFUSED, reached=False)
        try:
            if answer.frame_type == FrameType.REFUSED:
                refused = Refused.from_body(answer.body)
                failure = failure_of_refusal(refused.code, permanent=refused.permanent)
                return AttemptFailed(refused.text, failure=failure, retry_after_ms=refused.retry_after_ms or None)
            frame = decode_mesh_body(answer.frame_type, answer.body)
        except RestanteError:
            return self._lied(circuit)
        if isinstance(frame, WrongBucket | NotResponsible):
            return frame
        leaf = leaf_of(decode_envelope(batch.envelope))
        if isinstance(frame, MeshStored) and is_receipt_for(frame.receipt, node=node.node_key, leaf=leaf):
            return frame.receipt
        return self._lied(circuit)

    def _lied(self, circuit: ClientCircuit) -> AttemptFailed:
        """The exit, or the node behind it, answered with something that is no receipt for this message."""
        exit_id = circuit.hops[-1]
        self._pool.pass_over(exit_id)
        text = f"the exit {short_key(exit_id)} passed on a receipt that does not verify"
        return AttemptFailed(text, failure=Failure.STORAGE_REFUSED)


def _circuit_ended() -> CircuitFailed:
    return CircuitFailed("the circuit ended before the exit answered", failure=Failure.NETWORK_TIMEOUT)


def _settle(future: "asyncio.Future[Answer]", answer: Answer | AttemptFailed) -> None:
    if future.done():
        return
    if isinstance(answer, AttemptFailed):
        future.set_exception(answer)
        future.exception()  # a caller that gave up does not read it
    else:
        future.set_result(answer)
