"""What a durable, signed store in the mesh costs: node processes on loopback, against `kademlia` (PyPI) if installed.

A store counts when all five nodes have signed that the message is on disk; the rate is given in stored copies, because
`kademlia` makes another number of them, in memory and unsigned. Messages have 1 KiB.
"""

import argparse
import asyncio
import importlib
import importlib.util
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from restante.cli.node.local_network import make_nodes, running, wait_until_answering
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.core.mesh_proofs.reading import prove_entry
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import COPIES, PlacementIndex, place
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames.mesh_reading import FetchEntry
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.mesh_keys import mesh_inbox_key
from restante.wire.storage_receipts import StorageReceipt

SIZES: Final = (8, 32)
STORES: Final = 2_000
ALONE: Final = 200
FETCHES: Final = 1_000
IN_FLIGHT: Final = 64
SEALED_BYTES: Final = 1_024
OWNERS: Final = 50
WORKING_DIRECTORY: Final = Path(".run")  # the system's place for temporary files may be no disk at all
KADEMLIA_REPLICAS: Final = 7


class Mesh:
    """The nodes as one client sees them. Puts and reads have connections of their own (SPEC 6.5)."""

    def __init__(self, nodes: list[NodeDescriptor]) -> None:
        self._nodes = nodes
        self._index = PlacementIndex(nodes, now_ms=SystemClock().now_ms())
        self.bucket = bucket_at(SystemClock().now_ms())
        self._signers = [
            BlindedSigner(Identity((b"owner %d" % number).ljust(32)), place=in_period(self.bucket))
            for number in range(OWNERS)
        ]
        self._putting: dict[NodeId, MeshConnection] = {}
        self._reading: dict[NodeId, MeshConnection] = {}

    async def open(self) -> None:
        for node in self._nodes:
            [endpoint] = node.endpoints
            for kept in (self._putting, self._reading):
                host = str(ip_address(endpoint.ip))
                kept[node.node_id] = await MeshConnection.connect(host, endpoint.port, node=node.node_key)

    async def close(self) -> None:
        for each in (*self._putting.values(), *self._reading.values()):
            await each.close()

    async def store(self, number: int) -> None:
        """Put to all five at once and wait until all have signed."""
        signer = self._signers[number % OWNERS]
        key = mesh_inbox_key(signer.public_key, self.bucket)
        sealed = number.to_bytes(8, "big").ljust(SEALED_BYTES, b"x")
        raw = encode_envelope(Envelope(inbox_key=key, expires_at_ms=(self.bucket + 48) * HOUR_MS, sealed=sealed))
        answers = await asyncio.gather(
            *[self._putting[node.node_id].put(signer.public_key, self.bucket, raw) for node in place(self._index, key)]
        )
        assert all(isinstance(each, StorageReceipt) for each in answers)

    async def fetch(self, number: int) -> int:
        """Ask one holder for a whole bucket, verified by its signature; return how many hashes it listed."""
        signer = self._signers[number % OWNERS]
        key = mesh_inbox_key(signer.public_key, self.bucket)
        connection = self._reading[place(self._index, key)[number // OWNERS % COPIES].node_id]
        entry = prove_entry(
            signer,
            FetchEntry(blinded=signer.public_key, bucket=self.bucket, after=0),
            MeshFrameType.FETCH,
            challenge=connection.hello.challenge,
            connection=connection.binding,
            entropy=SystemEntropy().draw(SIGNING_ENTROPY_BYTES),
        )
        return len((await connection.fetch([entry])).listed[key])


async def in_flight(work: Callable[[int], Awaitable[Any]], numbers: range, width: int) -> list[float]:
    """Do the work for all numbers, `width` at a time; return how long each took."""
    waiting, took = iter(numbers), list[float]()

    async def one_after_the_other() -> None:
        for number in waiting:
            began = time.perf_counter()
            await work(number)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*[one_after_the_other() for _ in range(width)])
    return took


@contextmanager
def mesh_of(count: int, *, port: int) -> Iterator[list[NodeDescriptor]]:
    WORKING_DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY) as folder:
        made = make_nodes(Path(folder), count, port=port, status_port=port + 1)
        with running(made):
            wait_until_answering(made)
            yield asyncio.run(_directory(made, count))


async def _directory(made: list[Any], count: int) -> list[NodeDescriptor]:
    """Wait until one node knows all, and return what it knows."""
    while True:
        connection = await MeshConnection.connect(made[0].place.host, made[0].place.port, node=made[0].place.node_key)
        page = await connection.sync_directory(0, bytes(32))
        await connection.close()
        if len(page.descriptors) == count:
            return list(map(verify_descriptor, page.descriptors))
        await asyncio.sleep(0.5)


async def measure_ours(nodes: list[NodeDescriptor], *, stores: int) -> dict[str, float]:
    mesh = Mesh(nodes)
    await mesh.open()
    try:
        alone = await in_flight(mesh.store, range(ALONE), 1)
        began = time.perf_counter()
        await in_flight(mesh.store, range(ALONE, ALONE + stores), IN_FLIGHT)
        stored_s = time.perf_counter() - began
        began = time.perf_counter()
        # An entry costs a connection a token: 256 at once, then 64 a second (SPEC 7.12).
        await in_flight(mesh.fetch, range(min(FETCHES, 200 * len(nodes))), IN_FLIGHT)
        fetched_s = time.perf_counter() - began
    finally:
        await mesh.close()
    return {
        "copies": COPIES * stores / stored_s,
        "alone_ms": statistics.median(alone) * 1_000,
        "answers": min(FETCHES, 200 * len(nodes)) / fetched_s,
    }


async def measure_kademlia(count: int, *, stores: int, port: int) -> dict[str, float]:
    network = importlib.import_module("kademlia.network")  # no dependency: installed by hand for this comparison
    servers = [network.Server() for _ in range(count)]
    for number, server in enumerate(servers):
        await server.listen(port + number, interface="127.0.0.1")
        if number:
            await server.bootstrap([("127.0.0.1", port)])
    value = "x" * SEALED_BYTES

    async def store(number: int) -> None:
        await servers[number % count].set(f"key {number}", value)

    async def get(number: int) -> None:
        await servers[(number + 1) % count].get(f"key {number}")

    try:
        began = time.perf_counter()
        await in_flight(store, range(stores), IN_FLIGHT)
        stored_s = time.perf_counter() - began
        began = time.perf_counter()
        await in_flight(get, range(stores), IN_FLIGHT)
        return {
            "copies": KADEMLIA_REPLICAS * stores / stored_s,
            "answers": stores / (time.perf_counter() - began),
        }
    finally:
        for server in servers:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--stores", type=int, default=STORES)
    parser.add_argument("--port", type=int, default=17_700)
    given = parser.parse_args()
    has_peer = importlib.util.find_spec("kademlia") is not None
    if not has_peer:
        print("kademlia is not installed: no comparison")
    for count in given.nodes:
        with mesh_of(count, port=given.port) as nodes:
            ours = asyncio.run(measure_ours(nodes, stores=given.stores))
        print(f"{count} nodes, {IN_FLIGHT} in flight: {ours['copies']:,.0f} durable signed copies/s")
        print(f"  one in flight: P50 {ours['alone_ms']:.1f} ms until all five have signed")
        print(f"  {ours['answers']:,.0f} verified answers/s, each a whole bucket")
        if has_peer:
            peer = asyncio.run(measure_kademlia(count, stores=given.stores, port=given.port + 100))
            print(f"  {ours['copies'] / peer['copies']:.2f} x kademlia set ({peer['copies']:,.0f} copies/s), bar 3")
            print(f"  {ours['answers'] / peer['answers']:.2f} x kademlia get ({peer['answers']:,.0f}/s), bar 3")


if __name__ == "__main__":
    main()
