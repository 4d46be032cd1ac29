"""Nodes of the mesh through circuits: what `client.mesh.connections` uses in place of direct connections (SPEC 11.6).

The nodes of an inbox are spread over at least two circuits with different exits. No node is reached over a circuit in
which it is a hop. There is no fallback: if no circuit can be built, the attempt fails (SPEC 11.7).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from restante.client.circuits.circuit import ClientCircuit
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.store_fanout import StoreFanout
from restante.client.circuits.stream_transport import StreamTransport
from restante.model.ids import BlindedKey
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.silence import inner_connect_limit_s
from restante.policy.failures import Failure
from restante.ports.mesh_connection import PutAnswer
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import MeshConnection

MESSAGES_AT_ONCE: Final = 32
"""Messages that use circuits at the same time: as many as four circuits have streams. Others wait their turn."""
OVERLAP_S: Final = 20.0
"""How long an old connection stays after its subscription was opened elsewhere."""


class MeshCircuits:
    """Satisfies `client.mesh.connections.Circuits`. `on_rotating` gets connections whose circuit is to end."""

    def __init__(self, pool: CircuitPool, *, on_rotating: Callable[[MeshConnection], None]) -> None:
        self.pool = pool
        self._fanout = StoreFanout(pool)
        self.slots = asyncio.Semaphore(MESSAGES_AT_ONCE)
        self._on_rotating = on_rotating
        self._inner: dict[ClientCircuit, set[MeshConnection]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        pool.on_rotating = self._rotate
        pool.start()

    async def connect(self, node: NodeDescriptor, use: str, *, exits: int) -> MeshConnection:
        circuit = await self.pool.acquire(use, avoid=frozenset({node.node_id}), wants_exits=exits)
        connection = await self._open(circuit, node)
        self._inner.setdefault(circuit, set()).add(connection)
        self._start_watching(circuit, connection)
        return connection

    async def _open(self, circuit: ClientCircuit, node: NodeDescriptor) -> MeshConnection:
        async def dial(protocol: asyncio.BufferedProtocol) -> None:
            await StreamTransport(circuit, protocol).open(node.node_id)

        limit_s = inner_connect_limit_s(self.pool.times.timeout_s)
        return await MeshConnection.connect_over(dial, node=node.node_key, within_s=limit_s)

    async def put(self, node: NodeDescriptor, blinded: BlindedKey, bucket: int, envelope: bytes) -> PutAnswer:
        return await self._fanout.put(node, blinded, bucket, envelope)

    def admit(self, size_bytes: int) -> None:
        wait_ms = self.pool.rates.take(size_bytes, asyncio.get_running_loop().time())
        if wait_ms:
            text = "this client has sent as much through circuits as it may for now"
            raise AttemptFailed(text, failure=Failure.RATE_LIMITED, retry_after_ms=wait_ms, reached=False)

    async def close(self) -> None:
        await self._fanout.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pool.close()

    def _rotate(self, circuit: ClientCircuit) -> None:
        """Move subscriptions off an old circuit first; its connections end a little later."""
        for connection in self._inner.pop(circuit, set()):
            self._on_rotating(connection)
            self._start(self._end_later(connection))

    def _start_watching(self, circuit: ClientCircuit, connection: MeshConnection) -> None:
        async def watch() -> None:
            await connection.lost()
            self._inner.get(circuit, set()).discard(connection)
            if not self._inner.get(circuit):
                self._inner.pop(circuit, None)

        self._start(watch())

    async def _end_later(self, connection: MeshConnection) -> None:
        await asyncio.sleep(OVERLAP_S)
        await connection.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
