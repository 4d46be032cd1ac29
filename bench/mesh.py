"""What a durable, signed store in the mesh costs, and what reading costs: node processes on loopback, against
`kademlia` (PyPI), which is measured before and after ours; the better of its two rates counts."""

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import Final

from bench.end_to_end_floor import sync_us
from bench.measure import Cost, cost_of, in_flight
from bench.mesh_baselines import KademliaCosts, kademlia_nodes, measure_kademlia
from bench.results import Table, bar, with_earlier_rows, write_results
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
ALONE: Final = 200
READS: Final = 8_000
"""Answers and gets; a quarter as many whole buckets."""
SETS: Final = 1_000
IN_FLIGHT: Final = 64
SEALED_BYTES: Final = 1_024
OWNERS: Final = 20
SMALL_OWNERS: Final = 40
"""Inboxes with a bucket of `MESSAGES_A_BUCKET` messages, for reading."""
MESSAGES_A_BUCKET: Final = 4
BUCKETS_A_POLL: Final = 8
"""Buckets in one request of a poll: the current one, which has mail, and seven without."""
QUORUM: Final = 2
ABOUT: Final = """\
One client process and one process a node, on loopback, values of 1 KiB, 64 operations in flight. `kademlia` 2.2 runs as
its documentation shows (k 20, alpha 3; receive buffers large enough to lose nothing), before and after ours; the better
of its two rates counts. Its set looks the key up and stores the value at the 20 closest nodes, or at all if they are
fewer, in memory and unsigned, over UDP. A store of ours counts when all five nodes have signed that the message is on
disk, over TLS; rates are compared by stored copy. Its get looks the key up and fetches one value: it asks three nodes
at once and waits for all three. With alpha 1 it asks one node: that rate is shown, too, and no bar refers to it. An
answer of ours is what one node, known from the directory, signs about one key: which messages it holds, and whether
that is all. The client verifies signature and Merkle root. A poll asks for eight keys in one request, one of which has
mail, and gets eight such answers under one signature. A whole bucket is an answer and then the four messages that it
lists, verified by hash: two requests and 4 KiB, against one value of 1 KiB. Nodes have joined and connections are open
before, as `kademlia` knows its nodes before; the owner's proof for a key is made and checked at its first use on a
connection. Rates depend on what else the machine does; the processor time of client and nodes together hardly does, and
is shown for both."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OurCosts:
    store: Cost
    answer: Cost
    poll: Cost
    bucket: Cost
    sent_ms: float
    all_signed_ms: float


@contextmanager
def mesh_of(count: int, *, port: int) -> Iterator[tuple[list[LocalNode], list[NodeDescriptor]]]:
    WORKING_DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY) as folder:
        made = make_nodes(Path(folder), count, port=port, status_port=port + 1)
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


async def measure_ours(made: list[LocalNode], nodes: list[NodeDescriptor], *, stores: int, reads: int) -> OurCosts:
    mesh = Mesh(nodes)
    await mesh.open()
    processes = [os.getpid(), *(each.process.pid for each in made if each.process is not None)]
    measured = partial(cost_of, width=IN_FLIGHT, processes=processes)
    alone: list[list[float]] = []

    async def store_alone(number: int) -> None:
        alone.append(await mesh.store(number))

    try:
        await in_flight(store_alone, range(ALONE), 1)
        return OurCosts(
            store=await measured(mesh.store, range(ALONE, ALONE + stores)),
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


def best_of(peers: Sequence[KademliaCosts]) -> KademliaCosts:
    return KademliaCosts(
        set=max((each.set for each in peers), key=_rate),
        get=max((each.get for each in peers), key=_rate),
        narrow_get=max((each.narrow_get for each in peers), key=_rate),
        copies=max(each.copies for each in peers),
    )


def _rate(cost: Cost) -> float:
    return cost.per_second


def stores_table(count: int, ours: OurCosts, peer: KademliaCosts) -> Table:
    table = Table(
        f"Stores, {IN_FLIGHT} in flight: signed and on disk at five nodes, against `kademlia` set",
        [
            *("nodes", "stores/s", "signed copies/s", "sets/s", "copies a set", "copies/s in memory", "ratio", "bar"),
            *("processor µs a copy", "of `kademlia`"),
        ],
    )
    copies, theirs = COPIES * ours.store.per_second, peer.set.per_second * peer.copies
    table.add(
        [
            str(count),
            f"{ours.store.per_second:,.0f}",
            f"{copies:,.0f}",
            f"{peer.set.per_second:,.0f}",
            f"{peer.copies:.1f}",
            f"{theirs:,.0f}",
            f"{copies / theirs:.2f} x",
            bar(copies / theirs >= 3, "at least 3 x a copy"),
            f"{ours.store.processor_us / COPIES:,.0f}",
            f"{peer.set.processor_us / peer.copies:,.0f}",
        ]
    )
    return table


def alone_table(count: int, ours: OurCosts, sync_ms: float) -> Table:
    table = Table(
        "One store in flight",
        ["nodes", "P50 ms, two nodes signed", "P50 ms, all five signed", "one sync, ms", "bar"],
    )
    limit_ms = 3 * sync_ms + 2
    passed = bar(ours.sent_ms <= limit_ms, f"sent: at most 3 syncs + 2 ms = {limit_ms:.2f} ms")
    table.add([str(count), f"{ours.sent_ms:.2f}", f"{ours.all_signed_ms:.2f}", f"{sync_ms:.3f}", passed])
    return table


def reads_table(count: int, ours: OurCosts, peer: KademliaCosts) -> Table:
    table = Table(
        f"Reads, {IN_FLIGHT} in flight, against `kademlia` get",
        [
            *("nodes", "gets/s", "gets/s, alpha 1", "what", "signed and verified/s", "ratio to gets", "bar"),
            *("processor µs each", "of a get"),
        ],
    )
    for what, cost, each, least in (
        ("answers, one key a request", ours.answer, 1, 3),
        (f"answers, a poll of {BUCKETS_A_POLL} keys a request", ours.poll, BUCKETS_A_POLL, 3),
        (f"whole buckets of {MESSAGES_A_BUCKET} messages", ours.bucket, 1, 1),
    ):
        rate = each * cost.per_second
        ratio = rate / peer.get.per_second
        table.add(
            [
                *(str(count), f"{peer.get.per_second:,.0f}", f"{peer.narrow_get.per_second:,.0f}", what),
                *(f"{rate:,.0f}", f"{ratio:.2f} x", bar(ratio >= least, f"at least {least} x")),
                *(f"{cost.processor_us / each:,.0f}", f"{peer.get.processor_us:,.0f}"),
            ]
        )
    return table


def cost_table(count: int, ours: OurCosts) -> Table:
    table = Table(
        "Cost of a stored copy by number of nodes, client and nodes together",
        ["nodes", "processor µs", "of which the client"],
        plot=(0, 1),
    )
    table.add([str(count), f"{ours.store.processor_us / COPIES:,.0f}", f"{ours.store.first_share:.0%}"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--stores", type=int, default=STORES)
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--reads", type=int, default=READS)
    parser.add_argument("--port", type=int, default=17_700)
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the node processes are ended on the way out
    for count in given.nodes:
        peers = [measure_peer(count, port=given.port + 100, sets=given.sets, reads=given.reads)]
        with mesh_of(count, port=given.port) as (made, nodes):
            ours = asyncio.run(measure_ours(made, nodes, stores=given.stores, reads=given.reads))
        peers.append(measure_peer(count, port=given.port + 300, sets=given.sets, reads=given.reads))
        print(f"{count} nodes, ours: {ours}, kademlia: {peers}", flush=True)
        peer = best_of(peers)
        tables = [
            stores_table(count, ours, peer),
            alone_table(count, ours, sync_us(WORKING_DIRECTORY) / 1_000),
            reads_table(count, ours, peer),
            cost_table(count, ours),
        ]
        for table in tables:
            print(table.as_text())
        if not given.dry:
            write_results("mesh", [with_earlier_rows("mesh", table) for table in tables], about=ABOUT)


if __name__ == "__main__":
    main()
