"""Circuits on real node processes: building over links with a delay, storing, a client's CPU, idle connections.

Clients and nodes share this machine's cores.
"""

import asyncio
import contextlib
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench import link_delay
from restante.cli.node.local_network import RESTANTE, LocalNode, make_nodes, start, stop, wait_until_joined
from restante.client.circuits.circuit import ClientCircuit
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import CircuitMode, MeshHost
from restante.core.circuit.cell_queues import CellBudget
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.crypto.onion import start_handshake
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.model.states import State
from restante.policy.circuits.path import Path as CircuitPath
from restante.policy.circuits.path import usable_hops
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.circuit.frames import Create
from restante.wire.envelope import Envelope, encode_envelope

NODES: Final = 8
PORT: Final = 17_431
STATUS_PORT: Final = 18_431
DELAY_MS: Final = 10.0
BUILDS: Final = 40
STORES_MADE: Final = 200
MESSAGES: Final = 300
CONNECTIONS: Final = 1_000
MOST_MB: Final = 60
SEALED_BYTES: Final = 5_232
"""An ordinary message, sealed."""
UNKNOWN: Final = NodeId(b"?" * 32)
HOUR_MS: Final = 3_600_000


@contextlib.contextmanager
def mesh(base: Path, command: Sequence[str] = RESTANTE) -> Iterator[list[LocalNode]]:
    nodes = make_nodes(base, NODES, port=PORT, status_port=STATUS_PORT)
    try:
        for node in nodes:
            start(node, command)
        wait_until_joined(nodes)
        yield nodes
    finally:
        stop(nodes)


def new_home(base: Path, nodes: Sequence[LocalNode]) -> Path:
    bootstrap = [node.place for node in nodes[:3]]
    now_ms = SystemClock().now_ms()
    ClientDirectory(base).create(None, SystemEntropy(), mesh=bootstrap, circuits=CircuitMode.REQUIRED, now_ms=now_ms)
    return base


@contextlib.asynccontextmanager
async def mesh_of(base: Path, nodes: Sequence[LocalNode]) -> AsyncIterator[MeshHost]:
    """What a client uses of the mesh, without a receiver that competes with the measurement."""
    client = Client.open(new_home(base, nodes))
    async with client.mesh_host() as host:
        await host.directory.ensure_fresh()
        yield host
    await client.close()


def shown(name: str, times_s: Sequence[float]) -> str:
    ordered = sorted(times_s)
    half, most = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"  {name:<48} P50 {half * 1e3:8.2f} ms   P99 {most * 1e3:8.2f} ms"


def verdict(is_reached: bool, bar: str) -> str:
    return f"{'ok' if is_reached else 'BELOW THE BAR'} ({bar})"


async def connection_to(node: NodeDescriptor) -> CircuitConnection:
    [endpoint] = node.endpoints
    host = ".".join(map(str, endpoint.ip))
    made = await CircuitConnection.connect(host, endpoint.port, node=node.node_key)
    return made.use(CellBudget(1 << 30), SystemEntropy())


async def round_trip(circuit: ClientCircuit) -> float:
    """Return how long the last hop takes to say that it does not know a node."""
    began = time.perf_counter()
    with contextlib.suppress(AttemptFailed):
        await circuit.begin(UNKNOWN)
    return time.perf_counter() - began


class _Shorter:
    """The first hops of a path: each of them can be the last."""

    def __init__(self, path: CircuitPath, hops: int) -> None:
        self.hops = path.hops[:hops]


async def building(base: Path, nodes: Sequence[LocalNode]) -> None:
    """Compare builds with the round trips they consist of: one to each hop."""
    async with mesh_of(base, nodes) as host:
        guard, middle, last = usable_hops(host.directory.valid())[:3]
        path = CircuitPath(guard=guard, middle=middle, exit=last)
        connection = await connection_to(guard)
        circuits: dict[int, ClientCircuit] = {}
        for hops in (1, 2, 3):
            shorter: object = _Shorter(path, hops)
            circuits[hops] = await built(shorter, connection)
        builds, trips = [], []
        for _ in range(BUILDS):
            began = time.perf_counter()
            circuit = await built(path, connection)
            builds.append(time.perf_counter() - began)
            trips.append(sum([await round_trip(circuits[hops]) for hops in (1, 2, 3)]))
            circuit.close()
            await asyncio.sleep(0.06)  # a guard answers 20 a second
        connection.abort()
    ratio = statistics.median(builds) / statistics.median(trips)
    print(f"  links of {DELAY_MS:g} ms each way")
    print(shown("circuit build, three hops", builds))
    print(shown("its three round trips, added up", trips))
    print(f"  {'build / round trips':<48} {ratio:.2f}   {verdict(ratio <= 1.25, 'at most 1.25')}")


async def built(path: object, connection: CircuitConnection) -> ClientCircuit:
    circuit = ClientCircuit(path, connection, entropy=SystemEntropy(), on_ended=lambda _: None)  # type: ignore[arg-type]  # shorter ones, too
    await circuit.built
    return circuit


async def storing(base: Path, nodes: Sequence[LocalNode]) -> None:
    """Store at five nodes through circuits and directly; then what a put to one node consists of."""
    async with mesh_of(base, nodes) as host:
        assert host.circuits is not None
        bucket = bucket_at(host.directory.now_ms())
        keys = bucket_keys(Client.open(base).identity.address, bucket, b"")
        five = host.directory.place(keys.inbox_key, COPIES)

        def envelope() -> bytes:
            sealed = os.urandom(SEALED_BYTES)
            expires = (bucket + 48) * HOUR_MS
            return encode_envelope(Envelope(inbox_key=keys.inbox_key, expires_at_ms=expires, sealed=sealed))

        through, cpu = [], 0.0
        for _ in range(STORES_MADE):
            message = envelope()
            began, worked = time.perf_counter(), time.process_time()
            await asyncio.gather(*(host.circuits.put(node, keys.blinded, bucket, message) for node in five))
            through.append(time.perf_counter() - began)
            cpu += time.process_time() - worked
        direct_to = [await dialled(node) for node in five]
        direct, one, pings = [], [], []
        for _ in range(STORES_MADE):
            message = envelope()
            began = time.perf_counter()
            await asyncio.gather(*(each.put(keys.blinded, bucket, message) for each in direct_to))
            direct.append(time.perf_counter() - began)
            message, began = envelope(), time.perf_counter()
            await direct_to[0].put(keys.blinded, bucket, message)
            one.append(time.perf_counter() - began)
            began = time.perf_counter()
            await direct_to[0].ping()
            pings.append(time.perf_counter() - began)
        circuit = await host.circuits.pool.acquire("round trips")
        trips = [await round_trip(circuit) for _ in range(STORES_MADE)]
        for each in direct_to:
            await each.close()
    print(shown("store at five nodes, three hops", through))
    print(shown("store at five nodes, directly", direct))
    print(shown("put to one node, directly (network and disk)", one))
    print(shown("ping of one node, directly (network)", pings))
    print(shown("round trip through three hops (network, layers)", trips))
    circuit_ms = statistics.median(trips) * 1e3
    disk_ms = (statistics.median(one) - statistics.median(pings)) * 1e3
    rest_ms = statistics.median(through) * 1e3 - disk_ms - circuit_ms
    print(
        f"  {'parts of the P50 through circuits':<48} disk {disk_ms:.2f} ms, round trip {circuit_ms:.2f} ms, "
        f"upload, fan-out of the exit, further STOREs {rest_ms:.2f} ms"
    )
    print(f"  {'client, CPU of one store':<48} {cpu / STORES_MADE * 1e3:.2f} ms")


async def dialled(node: NodeDescriptor) -> MeshConnection:
    [endpoint] = node.endpoints
    return await MeshConnection.connect(".".join(map(str, endpoint.ip)), endpoint.port, node=node.node_key)


async def sending(base: Path, nodes: Sequence[LocalNode]) -> None:
    """CPU of a whole client: outbox, encryption, circuits, receipts."""
    other = Client.open(new_home(base / "other", nodes))
    async with Client.open(new_home(base / "one", nodes)) as client:
        client.contacts.add(replace(await other.as_contact(), name="other"))
        await client.send("other", "the first one opens a session")
        await until_sent(client)
        began, worked = time.perf_counter(), time.process_time()
        await client.send_many("other", [f"message {number}" for number in range(MESSAGES)])
        await until_sent(client)
        took, worked = time.perf_counter() - began, time.process_time() - worked
    await other.close()
    print(
        f"  {'client, CPU of a message from send to sent':<48} {worked / MESSAGES * 1e3:.2f} ms; "
        f"{MESSAGES / took:,.0f} messages/s"
    )


async def until_sent(client: Client) -> None:
    while (await client.outbox.counts()).keys() & {State.PENDING, State.SENDING}:  # noqa: ASYNC110 - on disk
        await asyncio.sleep(0.02)


async def connecting(base: Path, nodes: Sequence[LocalNode]) -> None:
    """A guard with 1,000 clients that have a circuit each and say nothing."""
    async with mesh_of(base, nodes) as host:
        guard = next(each for each in host.directory.valid() if each.node_key == nodes[0].place.node_key)
    process = nodes[0].process
    assert process is not None
    await asyncio.sleep(1.0)
    before = resident_mb(process.pid)
    request = start_handshake(guard.node_id, guard.onion_key, hop=1, entropy=os.urandom(96)).request
    connections = []
    for _ in range(CONNECTIONS):
        connection = await connection_to(guard)
        connection.create(_Silent(), Create(1, request))
        connections.append(connection)
    await asyncio.sleep(2.0)
    after = resident_mb(process.pid)
    open_now = sum(each.is_ready for each in connections)
    for connection in connections:
        connection.abort()
    grown = after - before
    print(
        f"  {f'{open_now:,} connections at a guard, a circuit each':<48} {grown:.0f} MB above {before:.0f} MB   "
        f"{verdict(grown <= MOST_MB and open_now == CONNECTIONS, f'at most {MOST_MB}')}"
    )


class _Silent:
    """A circuit that is created and not used."""

    def on_created(self, answer: bytes) -> None: ...
    def on_cell(self, body: bytes) -> None: ...
    def on_destroyed(self) -> None: ...
    def on_overflow(self) -> None: ...


def resident_mb(process: int) -> float:
    gc.collect()
    return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, mesh(Path(folder) / "nodes") as nodes:
        asyncio.run(storing(Path(folder) / "storing", nodes))
        asyncio.run(sending(Path(folder) / "sending", nodes))
        asyncio.run(connecting(Path(folder) / "connecting", nodes))
    link_delay.install(DELAY_MS / 1_000)
    command = (sys.executable, "-m", "bench.link_delay", str(DELAY_MS))
    with tempfile.TemporaryDirectory() as folder, mesh(Path(folder) / "nodes", command) as nodes:
        asyncio.run(building(Path(folder) / "building", nodes))


if __name__ == "__main__":
    main()
