"""node/circuits/hop_circuit: what a stream starts at the exit ends with it (SPEC 11.5, 11.6)."""

import asyncio
from types import SimpleNamespace
from typing import cast

from restante.core.circuit.effects import Deliver
from restante.core.circuit.exit_streams import ByteBudget
from restante.core.circuit.flow import MAX_STREAMS
from restante.crypto.onion import Layer
from restante.model.ids import NODE_ID_BYTES, NodeId
from restante.node.circuits.exit_connections import NodeSocket
from restante.node.circuits.hop_circuit import HopCircuit, HopHost
from restante.runtime.system import SystemEntropy
from restante.wire.circuit.cells import MAX_HOPS, CellClass, CellContent, Command
from restante.wire.circuit.streams import StreamFailure
from support.spec.clauses import clause


class SilentNodes:
    """Stands in for the connections of an exit: no node takes or refuses a connection."""

    def __init__(self) -> None:
        self.dialling: set[NodeSocket] = set()
        self.most = 0

    async def dial(self, _node: NodeId, socket: NodeSocket) -> StreamFailure | None:
        self.dialling.add(socket)
        self.most = max(self.most, len(self.dialling))
        try:
            await asyncio.Event().wait()
        finally:
            self.dialling.discard(socket)
        return None

    def forget(self, _circuit: object) -> None: ...


def exit_of(nodes: SilentNodes) -> HopCircuit:
    host = SimpleNamespace(
        entropy=SystemEntropy(),
        uploads=ByteBudget(1),
        exits=nodes,
        now_s=lambda: 0.0,
        forget=lambda _circuit: None,
    )
    return HopCircuit(
        cast("HopHost", host),
        cast("Layer", SimpleNamespace(hop=MAX_HOPS)),
        to_previous=lambda _body: None,
        destroy_previous=lambda: None,
        now_s=0.0,
    )


@clause("11.5", "11.6")
async def test_a_dial_ends_with_its_stream() -> None:
    nodes = SilentNodes()
    circuit = exit_of(nodes)
    for stream in range(1, 4 * MAX_STREAMS):
        circuit._run((Deliver(CellContent(Command.BEGIN, stream, bytes(NODE_ID_BYTES)), CellClass.SMALL),))
        await asyncio.sleep(0)
        circuit._run((Deliver(CellContent(Command.END, stream), CellClass.SMALL),))
        await asyncio.sleep(0)
    assert nodes.most == 1
    assert not nodes.dialling
    circuit.close()
