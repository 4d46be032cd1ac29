"""Puts through circuits: those of one message share an upload. Hosts `core.circuit.fanout` (SPEC 11.6).

An exit is trusted with nothing: each receipt is verified against the leaf of the envelope that this client built, and
an exit that passes on another one is left out of later circuits. A node does not sign REFUSED, WRONG_BUCKET or
NOT_RESPONSIBLE, so the exit may have made them up: the client asks that node through a second exit before it
believes them. With WRONG_BUCKET and NOT_RESPONSIBLE the caller also gets the exits that forwarded them.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field

from restante.client.circuits.circuit import CircuitFailed, ClientCircuit, NoHopsLeft, short_key
from restante.client.circuits.pool import CircuitPool
from restante.core.circuit.fanout import Acquire, Effects, Fanout, GiveUp, NotSigned, Upload
from restante.core.circuit.pool import STORES
from restante.core.mesh_proofs.receipts import is_receipt_for, leaf_of
from restante.model.errors import RestanteError
from restante.model.ids import BlindedKey, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.failures import Failure, failure_of_refusal
from restante.ports.mesh_connection import PutAnswer, UnsignedAnswer
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.circuit.streams import MAX_STORE_NODES, NO_ANSWER, StoreAnswer, StoreRequest
from restante.wire.envelope import decode_envelope
from restante.wire.frames.codec import FrameType, Refused
from restante.wire.frames.mesh import decode_mesh_body
from restante.wire.frames.mesh_storage import MeshStored, NotResponsible, WrongBucket
from restante.wire.storage_receipts import StorageReceipt


@dataclass(slots=True)
class _Batch:
    """One message and its nodes, each with what waits for its answer."""

    blinded: BlindedKey
    bucket: int
    envelope: bytes
    nodes: dict[NodeId, tuple[NodeDescriptor, asyncio.Future[PutAnswer]]] = field(default_factory=dict)
    fanout: Fanout = field(default_factory=lambda: Fanout(()))
    unreached: dict[NodeId, AttemptFailed] = field(default_factory=dict)
    """What the last exit said about a node that it could not reach, or that refused."""
    unsigned: dict[NodeId, tuple[UnsignedAnswer, ...]] = field(default_factory=dict)
    failed: AttemptFailed | None = None
    """Why the last circuit failed."""

    def settle(self, node: NodeId, answer: PutAnswer | AttemptFailed) -> None:
        future = self.nodes[node][1]
        if future.done():
            return
        if isinstance(answer, AttemptFailed):
            future.set_exception(answer)
            future.exception()  # a caller that gave up does not read it
        else:
            future.set_result(answer)

    def settle_unsigned(self, node: NodeId) -> None:
        self.settle(node, self.unsigned.get(node) or self.unreached[node])


class _NotFromNode(AttemptFailed):
    """The exit did not pass on an answer that the node signed: another exit may."""


class StoreFanout:
    def __init__(self, pool: CircuitPool) -> None:
        self._pool = pool
        self._batches: dict[tuple[BlindedKey, int, bytes], _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> PutAnswer:
        """Put to one node. Puts of the same envelope in one turn of the loop share an upload."""
        key = (blinded, bucket, envelope)
        batch = self._batches.get(key)
        if batch is None or len(batch.nodes) >= MAX_STORE_NODES:
            batch = self._batches[key] = _Batch(*key)
            asyncio.get_running_loop().call_soon(self._send, key, batch)
        answer: asyncio.Future[PutAnswer] = asyncio.get_running_loop().create_future()
        batch.nodes[node.node_id] = node, answer
        return await answer

    async def close(self) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self, key: tuple[BlindedKey, int, bytes], batch: _Batch) -> None:
        if self._batches.get(key) is batch:
            del self._batches[key]
        batch.fanout = Fanout(batch.nodes)
        self._execute(batch, batch.fanout.start())

    def _execute(self, batch: _Batch, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Acquire():
                    task = asyncio.create_task(self._acquire(batch, effect))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case NotSigned(node):
                    batch.settle_unsigned(node)
                case GiveUp(nodes):
                    for node in nodes:
                        batch.settle(node, batch.failed or _circuit_ended())

    async def _acquire(self, batch: _Batch, wanted: Acquire) -> None:
        try:
            await self._store(batch, wanted)
        except BaseException:
            for node in batch.nodes:  # no caller waits for a task that is gone
                batch.settle(node, batch.failed or _circuit_ended())
            raise

    async def _store(self, batch: _Batch, wanted: Acquire) -> None:
        try:
            circuit = await self._circuit(wanted)
        except NoHopsLeft as problem:
            batch.failed = problem
            self._execute(batch, batch.fanout.no_hops_left())
            return
        except AttemptFailed as problem:
            batch.failed = problem
            self._execute(batch, batch.fanout.not_acquired())
            return
        effects = batch.fanout.acquired(circuit.hops)
        self._execute(batch, effects)
        for effect in effects:
            if isinstance(effect, Upload):  # at once: others may take the circuit's last stream
                await self._upload(batch, circuit, effect)

    async def _circuit(self, wanted: Acquire) -> ClientCircuit:
        """Return a circuit over no family of a doubted exit; over another exit, if there is none."""
        relatives = self._pool.relatives(wanted.doubted)
        if relatives - wanted.avoid:
            with contextlib.suppress(NoHopsLeft):
                avoid = wanted.avoid | relatives
                return await self._pool.acquire(STORES, avoid=avoid, prefer_not=wanted.prefer_not)
        return await self._pool.acquire(STORES, avoid=wanted.avoid, prefer_not=wanted.prefer_not)

    async def _upload(self, batch: _Batch, circuit: ClientCircuit, upload: Upload) -> None:
        """Upload to these nodes and settle their answers."""
        request = StoreRequest(upload.nodes, batch.blinded, batch.bucket, batch.envelope)
        try:
            async for answer in circuit.store(request):
                if answer.place < len(upload.nodes):
                    self._answered(batch, circuit, upload, answer)
        except ConnectionLost:
            batch.failed = _circuit_ended()
        except CircuitFailed as problem:
            batch.failed = problem
        self._execute(batch, batch.fanout.ended(upload.number))

    def _answered(self, batch: _Batch, circuit: ClientCircuit, upload: Upload, answer: StoreAnswer) -> None:
        node = upload.nodes[answer.place]
        if not batch.fanout.is_waiting_for(node):
            return
        verified = self._verified(circuit, batch.nodes[node][0], batch, answer)
        match verified:
            case _NotFromNode():
                batch.unreached[node] = verified
            case UnsignedAnswer():
                batch.unsigned[node] = (*batch.unsigned.get(node, ()), verified)
            case _:
                batch.fanout.answered(upload.number, node)
                batch.settle(node, verified)
                return
        self._execute(batch, batch.fanout.not_signed(upload.number, node))

    def _verified(
        self, circuit: ClientCircuit, node: NodeDescriptor, batch: _Batch, answer: StoreAnswer
    ) -> StorageReceipt | UnsignedAnswer | AttemptFailed:
        if answer.frame_type == NO_ANSWER:
            text = f"the node {short_key(node.node_id)} can't be reached from the exit {short_key(circuit.hops[-1])}"
            return _NotFromNode(text, failure=Failure.CONNECTION_REFUSED, reached=False)
        try:
            if answer.frame_type == FrameType.REFUSED:
                refused = Refused.from_body(answer.body)
                failure = failure_of_refusal(refused.code, permanent=refused.permanent)
                return _NotFromNode(refused.text, failure=failure, retry_after_ms=refused.retry_after_ms or None)
            frame = decode_mesh_body(answer.frame_type, answer.body)
        except RestanteError:
            return self._lied(circuit)
        if isinstance(frame, WrongBucket | NotResponsible):
            return UnsignedAnswer(frame, circuit.hops[-1])
        leaf = leaf_of(decode_envelope(batch.envelope))
        if isinstance(frame, MeshStored) and is_receipt_for(frame.receipt, node=node.node_key, leaf=leaf):
            return frame.receipt
        return self._lied(circuit)

    def _lied(self, circuit: ClientCircuit) -> AttemptFailed:
        """The exit, or the node behind it, answered with something that is no receipt for this message."""
        exit_id = circuit.hops[-1]
        self._pool.pass_over(exit_id)
        text = f"the exit {short_key(exit_id)} passed on a receipt that does not verify"
        return _NotFromNode(text, failure=Failure.STORAGE_REFUSED)


def _circuit_ended() -> CircuitFailed:
    return CircuitFailed("the circuit ended before the exit answered", failure=Failure.NETWORK_TIMEOUT)
