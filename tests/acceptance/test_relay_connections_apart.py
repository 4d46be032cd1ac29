"""Two clients talk through a real relay; each connection is recorded with what was proved and put on it (C2)."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from restante import Client, ClientDirectory, Node, State
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.model.ids import NodeKey
from restante.model.places import RelayPlace
from restante.policy.connection_limits import RelayLimits
from restante.ports.relay_connection import RelayConnection
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.storage_receipts import StorageReceipt
from support.spec.clauses import clause

LIMIT_S = 60.0
NAMES = ("alice", "bob")


class RecordedConnection(TlsRelayConnection):
    """The product's connection, which notes the inboxes proved on it and counts the puts."""

    def __init__(self, node: NodeKey, *, limits: RelayLimits) -> None:
        super().__init__(node, limits=limits)
        self.proved: list[bytes] = []
        self.puts = 0

    async def subscribe(self, inbox: OwnInbox) -> None:
        self.proved.append(inbox.access_secret)
        await super().subscribe(inbox)

    async def put(self, envelope: bytes) -> StorageReceipt:
        self.puts += 1
        return await super().put(envelope)


@dataclass
class Recorder:
    connections: list[RecordedConnection] = field(default_factory=list)

    async def connect(self, place: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        connection = await RecordedConnection.connect(place.host, place.port, node=place.node_key)
        self.connections.append(connection)
        if inbox is not None:
            await connection.subscribe(inbox)
        return connection


async def opened(home: Path, place: RelayPlace) -> dict[str, Client]:
    clients = {}
    for name in NAMES:
        ClientDirectory(home / name).create(place, SystemEntropy())
        clients[name] = Client.open(home / name, receive_delay_s=0)
    for name, other in (NAMES, NAMES[::-1]):
        clients[name].contacts.add(replace(await clients[other].as_contact(), name=other))
    return clients


async def converse(clients: dict[str, Client]) -> None:
    """Mail and receipts both ways, more than once, so that every kind of connection is in use."""
    for turn in range(2):
        sent = [await clients[name].send(other, f"{name} {turn}") for name, other in (NAMES, NAMES[::-1])]
        for message in sent:
            assert (await message.delivered(timeout=LIMIT_S)).state is State.DELIVERED


@clause("6.5")
async def test_c2_a_put_never_travels_on_a_connection_that_proved_an_inbox(tmp_path: Path) -> None:
    """C2: before, puts travelled on the connection that proved the inbox, so the relay saw who writes to whom."""
    recorders = {name: Recorder() for name in NAMES}
    async with asyncio.timeout(LIMIT_S), Node.open(tmp_path / "relay", listen="127.0.0.1:0") as node:
        clients = await opened(tmp_path, node.place)
        running = [asyncio.create_task(clients[name].run(recorders[name].connect)) for name in NAMES]
        await converse(clients)
        for client in clients.values():
            await client.close()
        for task in running:
            with suppress(asyncio.CancelledError):
                await task
    for recorder in recorders.values():
        putting = [each for each in recorder.connections if each.puts]
        proving = [each for each in recorder.connections if each.proved]
        assert putting
        assert not [each for each in putting if each.proved], "a connection both proved an inbox and put"
        assert all(len(each.proved) == 1 for each in proving)
        assert len({each.proved[0] for each in proving}) == 2, "public and contacts inbox, each on its own"
