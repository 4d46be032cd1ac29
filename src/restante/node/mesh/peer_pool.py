"""The node's own connections to other nodes: dialled on demand, authenticated, kept and bounded."""

import asyncio
import contextlib
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from restante.crypto.identity import Identity
from restante.model.ids import NodeId, NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import MeshConnection

MOST_CONNECTIONS: Final = 256
"""Kept connections; the least recently used one is closed first. More than neighbours and a routing table need."""
CHECK_S: Final = 5.0
"""How long a node may take to answer at one endpoint before it counts in the directory."""


class PeerPool:
    def __init__(self, identity: Identity, limits: RelayLimits) -> None:
        self._identity = identity
        self._limits = limits
        self._open: dict[NodeId, MeshConnection] = {}
        self._dialling: dict[NodeId, asyncio.Task[MeshConnection]] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def to(self, node: NodeDescriptor) -> MeshConnection:
        """Return a connection to the node, a kept one if it still stands. Raises `AttemptFailed`."""
        kept = self._open.pop(node.node_id, None)
        if kept is not None and kept.is_ready:
            self._open[node.node_id] = kept  # the most recently used one is last
            return kept
        task = self._dialling.get(node.node_id)
        if task is None:
            task = asyncio.create_task(self._dial_and_keep(node))
            self._dialling[node.node_id] = task
            task.add_done_callback(lambda _task: self._dialling.pop(node.node_id, None))
        return await asyncio.shield(task)

    async def at(self, host: str, port: int, key: NodeKey) -> MeshConnection:
        """Dial a bootstrap node, which has no descriptor here yet. The caller closes the connection."""
        connection = await MeshConnection.connect(host, port, node=key, limits=self._limits)
        connection.authenticate(self._identity)
        return connection

    async def check(self, node: NodeDescriptor) -> None:
        """Dial every endpoint that the node names, whatever is kept of it; raise `AttemptFailed` unless each answers
        with its key. The first connection is kept."""
        made: list[MeshConnection] = []
        try:
            for endpoint in dict.fromkeys(node.endpoints):
                async with asyncio.timeout(CHECK_S):
                    made.append(await self.at(str(ip_address(endpoint.ip)), endpoint.port, node.node_key))
        except (AttemptFailed, OSError) as error:  # a time-out is an OSError
            for connection in made:
                await connection.close()
            raise AttemptFailed(str(error), failure=Failure.CONNECTION_REFUSED, reached=False) from error
        for connection in made[1:]:
            await connection.close()
        await self.forget([node.node_id])
        await self._keep(node.node_id, made[0])

    async def close(self) -> None:
        for task in tuple(self._dialling.values()):
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)
        await self.forget(list(self._open))

    async def forget(self, nodes: Iterable[NodeId]) -> None:
        for node in nodes:
            connection = self._open.pop(node, None)
            if connection is not None:
                await connection.close()

    async def dial(self, node: NodeDescriptor) -> MeshConnection:
        """Dial the endpoints of a node one after the other until one answers with its key. The caller closes the
        connection."""
        failed = AttemptFailed("the node names no endpoint", failure=Failure.CONNECTION_REFUSED, reached=False)
        for endpoint in node.endpoints:
            try:
                return await self.at(str(ip_address(endpoint.ip)), endpoint.port, node.node_key)
            except (AttemptFailed, OSError) as error:
                failed = AttemptFailed(str(error), failure=Failure.CONNECTION_REFUSED, reached=False)
        raise failed

    async def _dial_and_keep(self, node: NodeDescriptor) -> MeshConnection:
        connection = await self.dial(node)
        await self._keep(node.node_id, connection)
        return connection

    async def _keep(self, node: NodeId, connection: MeshConnection) -> None:
        self._open[node] = connection
        with contextlib.suppress(StopIteration):
            while len(self._open) > MOST_CONNECTIONS:
                await self.forget([next(iter(self._open))])
