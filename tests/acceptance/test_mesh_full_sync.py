"""A device that was away for a month reads 720 buckets from real node processes (SPEC 7.5, 7.12)."""

import asyncio
import ipaddress
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from restante.cli.node.local_network import LocalNode, make_nodes, start, stop, wait_until_joined
from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.core.mailbox import Keep
from restante.core.mailbox_poll.full_sync import MOST_ENTRIES
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.model.sources import UNKNOWN_SOURCE
from restante.policy.mesh.placement import PlacementIndex, place
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS, HOUR_MS, bucket_at
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.store import MeshKeep, SqliteMeshStore
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key
from support.mesh.device import Device
from support.relay.node_processes import free_port
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import LIMIT_S

OWNER = Identity(b"o" * 32)
SEALED_BYTES = 5_300  # ordinary mail
MOST_S = 5.0
QUOTA = MailboxQuota()


def message(number: int) -> bytes:
    return number.to_bytes(8, "big").ljust(SEALED_BYTES, b"x")


def puts(numbers: Iterable[int], bucket: int, now_ms: int) -> list[MeshKeep]:
    blinded = BlindedSigner(OWNER, place=in_period(bucket)).public_key
    key = mesh_inbox_key(blinded, bucket)
    made = []
    for number in numbers:
        sealed, expires_at_ms = message(number), (bucket + 719) * HOUR_MS
        if expires_at_ms <= now_ms:
            expires_at_ms = now_ms + HOUR_MS
        raw = encode_envelope(Envelope(inbox_key=key, expires_at_ms=expires_at_ms, sealed=sealed))
        keep = Keep(key, hash_sealed_bytes(sealed), expires_at_ms, raw, UNKNOWN_SOURCE)
        made.append(MeshKeep(blinded, bucket, keep))
    return made


def fill(nodes: Sequence[LocalNode], by_bucket: dict[int, range]) -> None:
    """Write mail of a month to the files of the nodes that should hold it, before they start."""
    now_ms = SystemClock().now_ms()
    index = PlacementIndex([described(node, now_ms) for node in nodes], now_ms=now_ms)
    held: dict[NodeId, list[MeshKeep]] = {}
    for bucket, numbers in by_bucket.items():
        made = puts(numbers, bucket, now_ms)
        for each in place(index, made[0].keep.inbox_key):
            held.setdefault(each.node_id, []).extend(made)
    for node in nodes:
        write(node, held.get(node_id_of(node.place.node_key), []), now_ms)


def described(node: LocalNode, now_ms: int) -> NodeDescriptor:
    return NodeDescriptor(
        node_key=node.place.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(ipaddress.ip_address(node.place.host).packed, node.place.port),),
        roles=Role.STORAGE,
        issued_at_ms=now_ms,
        expires_at_ms=now_ms + HOUR_MS,
    )


def write(node: LocalNode, mail: list[MeshKeep], now_ms: int) -> None:
    database = Database(node.directory.database, schema="node")
    journal = Journal(database, SystemEntropy())
    mailbox = SqliteMailbox(database, journal, tag_secret=b"t" * 32)
    store = SqliteMeshStore(database, journal, tag_secret=b"t" * 32, sources=mailbox.sources)
    assert not any(store.put_all(mail, quota=QUOTA, now_ms=now_ms))
    store.close()
    mailbox.close()
    database.close()


@contextmanager
def filled_nodes(base: Path, count: int, by_bucket: dict[int, range]) -> Iterator[list[LocalNode]]:
    nodes = make_nodes(base, count, port=free_port(), status_port=free_port())
    fill(nodes, by_bucket)
    try:
        for node in nodes:
            start(node)
        wait_until_joined(nodes)
        yield nodes
    finally:
        stop(nodes)


@asynccontextmanager
async def new_device(nodes: Sequence[LocalNode]) -> AsyncIterator[Device]:
    bootstrap = [node.place for node in nodes[:3]]
    directory = MeshDirectory(bootstrap, connect_to_node, clock=SystemClock(), entropy=SystemEntropy())
    await directory.ensure_fresh()
    device = Device(OWNER, directory)
    try:
        yield device
    finally:
        await device.close()
        await directory.close()


async def found_by_another_device(nodes: Sequence[LocalNode]) -> int:
    async with new_device(nodes) as another:
        await another.poll.poll()
        return len(another.bodies)


@clause("7.5", "7.12")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak([(12, 10_000)], now=0))
async def test_a_full_sync_reads_all_of_a_month_in_five_seconds_in_one_pass(
    tmp_path: Path, count: int, messages: int
) -> None:
    """More buckets than a node remembers proofs of, and more requests than it answers at once."""
    newest = bucket_at(SystemClock().now_ms()) - 1
    oldest = newest - FULL_SYNC_BUCKETS + 3
    size = -(-messages // (newest - oldest + 1))
    by_bucket = {
        oldest + at: range(begin, min(begin + size, messages)) for at, begin in enumerate(range(0, messages, size))
    }
    with filled_nodes(tmp_path, count, by_bucket) as nodes:
        began = time.perf_counter()
        async with new_device(nodes) as device:
            await device.poll.poll()
            took_s = time.perf_counter() - began
            read = [int.from_bytes(each[:8], "big") for each in device.bodies]
            assert sorted(read) == list(range(messages)), "all, once"
            assert [number // size for number in read] == sorted(number // size for number in read), "oldest hour first"
            assert took_s <= MOST_S, f"{took_s:.2f} s"
            # A FETCH of 64 keys each, rounded up, and a SUBSCRIBE for the current hours. None was refused for haste.
            assert device.nodes.requests <= len(nodes) * 2 + 5 * FULL_SYNC_BUCKETS // MOST_ENTRIES
            async with asyncio.timeout(LIMIT_S):
                while await found_by_another_device(nodes):
                    pass  # the nodes take 64 DELETEs a second of a connection
