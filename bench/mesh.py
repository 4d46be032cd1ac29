"""What a durable, signed store in the mesh costs, and what reading costs: node processes on loopback, against
`kademlia` (PyPI) and against bare nodes (`bench.mesh_floor`). The three take turns."""

import argparse
import asyncio
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import Final

from bench.end_to_end_floor import sync_us
from bench.measure import Cost, cost_of, in_flight
from bench.mesh_baselines import KademliaCosts, kademlia_nodes, measure_kademlia
from bench.mesh_floor import LOG, STORE, FloorCosts, bare_nodes, measure_floor
from bench.mesh_tables import (
    BUCKETS_A_POLL,
    IN_FLIGHT,
    MESSAGES_A_BUCKET,
    OurCosts,
    Round,
    alone_table,
    cost_table,
    floor_table,
    reads_table,
    stores_table,
)
from bench.results import with_earlier_rows, write_results
from restante.cli.node.local_network import LocalNode, make_nodes, running, wait_until_joined
from restante.core.mesh_proofs.connection_proofs import OwnProofs
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import COPIES, PlacementIndex, place
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.mesh_keys import mesh_inbox_key
from restante.wire.storage_receipts import StorageReceipt

SIZES: Final = (8, 32)
STORES: Final = 4_000
WARM_UP: Final = 8_000
"""Stores before any is measured: then each node's write-ahead log has its size, as in a node that has run a while."""
ALONE: Final = 200
READS: Final = 8_000
"""Answers and gets; a quarter as many whole buckets."""
PING_MS: Final = 600_000
"""A minute after its start, with its second pings, a node meets those it missed and copies what lies between them."""
SETS: Final = 1_000
ROUNDS: Final = 3
SEALED_BYTES: Final = 1_024
OWNERS: Final = 20
SMALL_OWNERS: Final = 40
"""Inboxes with a bucket of `MESSAGES_A_BUCKET` messages, for reading."""
QUORUM: Final = 2
ABOUT: Final = """\
One client process and one process a node, on loopback, values of 1 KiB, 64 operations in flight. `kademlia` 2.2 runs
as its documentation shows (k 20, alpha 3; receive buffers large enough to lose nothing). It, ours and bare nodes take
turns, several rounds; each row is of the round whose ratio is the middle one. A `kademlia` set looks the key up and
stores the value at the 20 closest nodes, or at all if they are fewer, in memory and unsigned, over UDP. A store of
ours counts when all five nodes have signed that the message is on disk, over TLS; rates are compared by stored copy. A
`kademlia` get looks the key up and fetches one value: it asks three nodes at once and waits for all three. With alpha
1 it asks one node: that rate is shown, too, and no bar refers to it. An answer of ours is what one node, known from
the directory, signs about one key: which messages it holds, and whether that is all. The client verifies signature and
Merkle root. A poll asks for eight keys in one request, one of which has mail, and gets eight such answers under one
signature. A whole bucket is an answer and then the four messages that it lists, verified by hash: two requests and 4
KiB, against one value of 1 KiB. Nodes have joined and connections are open before, as `kademlia` knows its nodes
before, and 8,000 stores have given each node's write-ahead log its size, as in a node that has run a while; the round
of copies a minute after a start is put off (later there is one an hour); the owner's proof for a key is made and
checked at its first use on a connection. Bare nodes are what is left without a mesh: the same number of Python
processes over asyncio's own TLS, which write what came in one turn of the loop into a file that has its size, sync it
once and sign it once, or sign an answer; the client verifies. Those that write to our store put the same bytes into a
node's own tables, with the journal in the same transaction, and still look nothing up and check nothing. Their ratio
to `kademlia` says what of a bar two processors leave to the mesh itself. Rates depend on what else the machine does,
and processor time, which is shown for all, on how fast its processors are at the time."""
WORKING_DIRECTORY: Final = Path(".run")  # the system's place for temporary files may be no disk at all


class Inbox:
    """One inbox in the current bucket, as its owner knows it."""

    def __init__(self, name: str, bucket: int, index: PlacementIndex) -> None:
        owner = Identity(name.encode().ljust(32))
        self.signers = {
            each: BlindedSigner(owner, place=in_period(each)) for each in range(bucket, bucket - BUCKETS_A_POLL, -1)
        }
        self.signer = self.signers[bucket]
        self.key: InboxKey = mesh_inbox_key(self.signer.public_key, bucket)
        self.nodes = [each.node_id for each in place(index, self.key)]


class Mesh:
    """The nodes as clients see them: one connection a node for puts, one an inbox and node for reads (SPEC 6.5)."""

    def __init__(self, nodes: list[NodeDescriptor]) -> None:
        self._nodes = {each.node_id: each for each in nodes}
        index = PlacementIndex(nodes, now_ms=SystemClock().now_ms())
        self._bucket = bucket_at(SystemClock().now_ms())
        self._written = [Inbox(f"written {number}", self._bucket, index) for number in range(OWNERS)]
        self._read = [Inbox(f"read {number}", self._bucket, index) for number in range(SMALL_OWNERS)]
        self._putting: dict[NodeId, MeshConnection] = {}
        self._reading: dict[tuple[InboxKey, NodeId], MeshConnection] = {}
        self._proofs: dict[MeshConnection, OwnProofs] = {}

    async def open(self) -> None:
        for node_id in self._nodes:
            self._putting[node_id] = await self._connect(node_id)
        for inbox in self._read:
            for node_id in inbox.nodes:
                reading = self._reading[inbox.key, node_id] = await self._connect(node_id)
                self._proofs[reading] = OwnProofs(challenge=reading.hello.challenge, connection=reading.binding)
        await in_flight(self._fill, range(SMALL_OWNERS * MESSAGES_A_BUCKET), IN_FLIGHT)

    async def close(self) -> None:
        for each in (*self._putting.values(), *self._reading.values()):
            await each.close()

    async def store(self, number: int) -> list[float]:
        """Put to all five at once; return when each had signed, in seconds since the start, sorted."""
        return await self._store(self._written[number % OWNERS], number)

    async def fetch(self, number: int) -> tuple[PayloadHash, ...]:
        """Ask one holder for the list of a bucket, verified by the node's signature."""
        return await self._fetch(number, 1)

    async def poll(self, number: int) -> None:
        """As `fetch`, for the last eight buckets of the inbox in one request."""
        await self._fetch(number, BUCKETS_A_POLL)

    async def read_bucket(self, number: int) -> None:
        """As `fetch`, and all bodies, verified by hash."""
        listed = await self.fetch(number)
        inbox, connection = self._holder(number)
        assert len(await connection.want(inbox.key, listed)) == MESSAGES_A_BUCKET

    async def _fetch(self, number: int, buckets: int) -> tuple[PayloadHash, ...]:
        inbox, connection = self._holder(number)
        proofs = self._proofs[connection]
        entries = [
            proofs.entry(signer, bucket, MeshFrameType.FETCH, draw=SystemEntropy().draw)
            for bucket, signer in islice(inbox.signers.items(), buckets)
        ]
        listed = (await connection.fetch(entries)).listed[inbox.key]
        assert len(listed) == MESSAGES_A_BUCKET
        return listed

    def _holder(self, number: int) -> tuple[Inbox, MeshConnection]:
        inbox = self._read[number % SMALL_OWNERS]
        return inbox, self._reading[inbox.key, inbox.nodes[number // SMALL_OWNERS % COPIES]]

    async def _fill(self, number: int) -> None:
        await self._store(self._read[number % SMALL_OWNERS], number)

    async def _store(self, inbox: Inbox, number: int) -> list[float]:
        sealed = number.to_bytes(8, "big").ljust(SEALED_BYTES, b"x")
        expires_at_ms = (self._bucket + 48) * HOUR_MS
        raw = encode_envelope(Envelope(inbox_key=inbox.key, expires_at_ms=expires_at_ms, sealed=sealed))
        began = time.perf_counter()

        async def put(node_id: NodeId) -> float:
            answer = await self._putting[node_id].put(inbox.signer.public_key, self._bucket, raw)
            assert isinstance(answer, StorageReceipt)
            return time.perf_counter() - began

        return sorted(await asyncio.gather(*map(put, inbox.nodes)))

    async def _connect(self, node_id: NodeId) -> MeshConnection:
        node = self._nodes[node_id]
        [endpoint] = node.endpoints
        return await MeshConnection.connect(str(ip_address(endpoint.ip)), endpoint.port, node=node.node_key)


@contextmanager
def mesh_of(count: int, *, port: int) -> Iterator[tuple[list[LocalNode], list[NodeDescriptor]]]:
    WORKING_DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY) as folder:
        made = make_nodes(Path(folder), count, port=port, status_port=port + 1)
        for each in made:
            config = each.directory.config
            text, changes = re.subn(
                r"# ping_interval_ms = .*", f"ping_interval_ms = {PING_MS}", config.read_text("utf-8")
            )
            assert changes == 1
            config.write_text(text, "utf-8")
        with running(made):
            wait_until_joined(made)
            yield made, asyncio.run(_directory(made, count))


async def _directory(made: list[LocalNode], count: int) -> list[NodeDescriptor]:
    """Return what the first node knows: all of them."""
    first = made[0].place
    connection = await MeshConnection.connect(first.host, first.port, node=first.node_key)
    page = await connection.sync_directory(0, bytes(32))
    await connection.close()
    assert len(page.descriptors) == count
    return list(map(verify_descriptor, page.descriptors))


async def measure_ours(
    made: list[LocalNode], nodes: list[NodeDescriptor], *, warm_up: int, stores: int, reads: int
) -> OurCosts:
    mesh = Mesh(nodes)
    await mesh.open()
    processes = [os.getpid(), *(each.process.pid for each in made if each.process is not None)]
    measured = partial(cost_of, width=IN_FLIGHT, processes=processes)
    alone: list[list[float]] = []

    async def store_alone(number: int) -> None:
        alone.append(await mesh.store(number))

    try:
        await in_flight(mesh.store, range(warm_up), IN_FLIGHT)
        await in_flight(store_alone, range(warm_up, warm_up + ALONE), 1)
        first = warm_up + ALONE
        return OurCosts(
            store=await measured(mesh.store, range(first, first + stores)),
            answer=await measured(mesh.fetch, range(reads)),
            poll=await measured(mesh.poll, range(reads // BUCKETS_A_POLL)),
            bucket=await measured(mesh.read_bucket, range(reads // 4)),
            sent_ms=statistics.median(each[QUORUM - 1] for each in alone) * 1_000,
            all_signed_ms=statistics.median(each[-1] for each in alone) * 1_000,
        )
    finally:
        await mesh.close()


def measure_peer(count: int, *, port: int, sets: int, reads: int) -> KademliaCosts:
    with kademlia_nodes(count, port=port) as servers:
        return asyncio.run(
            measure_kademlia(servers, port=port, sets=sets, gets=reads, width=IN_FLIGHT, value=b"x" * SEALED_BYTES)
        )


def measure_floor_of(count: int, *, port: int, warm_up: int, stores: int, reads: int) -> FloorCosts:
    readers = SMALL_OWNERS * COPIES

    def measured(writes_to: str, *, warm_up: int, reads: int) -> tuple[Cost, Cost]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY)))
            processes = stack.enter_context(bare_nodes(count, port=port, folder=folder, writes_to=writes_to))
            given = {"port": port, "stores": stores, "answers": reads, "warm_up": warm_up}
            return asyncio.run(
                measure_floor(processes, **given, width=IN_FLIGHT, places=OWNERS, readers=readers),
            )

    store, answer = measured(LOG, warm_up=0, reads=reads)
    kept, _ = measured(STORE, warm_up=warm_up, reads=readers)
    return FloorCosts(store=store, answer=answer, kept=kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    parser.add_argument("--stores", type=int, default=STORES)
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--reads", type=int, default=READS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--port", type=int, default=17_700)
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the node processes are ended on the way out
    for count in given.nodes:
        rounds = [one_round(count, given) for _ in range(given.rounds)]
        tables = [
            stores_table(count, rounds),
            alone_table(count, rounds, sync_us(WORKING_DIRECTORY) / 1_000),
            reads_table(count, rounds),
            cost_table(count, rounds),
            floor_table(count, rounds),
        ]
        for table in tables:
            print(table.as_text())
        if not given.dry:
            write_results("mesh", [with_earlier_rows("mesh", table) for table in tables], about=ABOUT)


def one_round(count: int, given: argparse.Namespace) -> Round:
    peer = measure_peer(count, port=given.port + 100, sets=given.sets, reads=given.reads)
    with mesh_of(count, port=given.port) as (made, nodes):
        measured = measure_ours(made, nodes, warm_up=given.warm_up, stores=given.stores, reads=given.reads)
        ours = asyncio.run(measured)
    floor = measure_floor_of(
        count, port=given.port + 300, warm_up=given.warm_up, stores=given.stores, reads=given.reads
    )
    taken = Round(peer=peer, ours=ours, floor=floor)
    print(f"{count} nodes, ratio of stores {taken.store_ratio():.2f}: {taken}", flush=True)
    return taken


if __name__ == "__main__":
    main()
