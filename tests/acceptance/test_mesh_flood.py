"""A flood of valid requests of one network: honest people hardly notice, and the node's file keeps its quota.

Test 9 of NETWORK section 6, without CREATE, which is in `test_hostile_circuits`. Node and honest person share one
processor, with and without the flood, and the flood has another: strangers have machines of their own, and their work
is none of the node's. With one processor only, or where processes cannot be bound, all share what there is.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from restante.cli.node.local_network import LocalNode, make_nodes, start, stop, wait_until_answering
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.store import SqliteMeshStore
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.storage_receipts import StorageReceipt
from support.mesh import flood
from support.mesh.mesh_driver import inbox_of_this_hour
from support.relay.node_processes import free_port
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

HONEST_PER_S = 20
MANY_TIMES = 10
FLOOD_PER_S = (MANY_TIMES + 2) * HONEST_PER_S  # some are still under way at the end
QUOTA = MailboxQuota(total_bytes=10_000_000)
MOST_SLOWER = 3
WARM_UP = 10


@contextmanager
def small_node(base: Path) -> Iterator[LocalNode]:
    [node] = make_nodes(base, 1, port=free_port(), status_port=free_port())
    text = node.directory.config.read_text("utf-8")
    changed = re.sub(r"# total_bytes = .*", f"total_bytes = {QUOTA.total_bytes}", text, count=1)
    assert changed != text
    node.directory.config.write_text(changed, "utf-8")
    try:
        start(node)
        wait_until_answering([node])
        yield node
    finally:
        stop([node])


def processors() -> tuple[set[int], set[int]]:
    """Return one for node and honest person, and one for the flood; where that cannot be, all for both."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    return ({usable[0]}, {usable[1]}) if len(usable) > 1 else (set(usable), set(usable))


@contextmanager
def running_on(processors: set[int]) -> Iterator[None]:
    """Bind this thread, and the processes that it starts."""
    if not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Flood:
    """A process that floods the node until `end`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._lines.readline() == "begun\n"

    def end(self) -> int:
        """Return how many requests the node has answered or refused."""
        self._process.terminate()
        return int(self._lines.readline())

    @property
    def _lines(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


@contextmanager
def flooded(node: LocalNode, processors: set[int]) -> Iterator[Flood]:
    command = [sys.executable, flood.__file__, str(node.place), str(FLOOD_PER_S)]
    with running_on(processors):
        started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with started as process:
        try:
            yield Flood(process)
        finally:
            process.kill()


class Honest:
    """One person who writes to an inbox and reads it, twenty times a second."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._inbox = inbox_of_this_hour()
        self.stored: list[bytes] = []

    async def run(self, seconds: int) -> list[float]:
        """Return how long each request took, in seconds, sorted."""
        took = []
        writer, reader = [await self._dial() for _ in range(2)]
        for number in range(WARM_UP + seconds * HONEST_PER_S):
            began = time.perf_counter()
            if number % 2:
                await self._read(reader)
            else:
                await self._write(writer)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(max(0.0, 1 / HONEST_PER_S - took[-1]))
        await writer.close()
        await reader.close()
        return sorted(took[WARM_UP:])

    async def _write(self, connection: MeshConnection) -> None:
        body = b"message %06d" % len(self.stored)
        answer = await connection.put(self._inbox.signer.public_key, self._inbox.bucket, self._inbox.envelope(body))
        assert isinstance(answer, StorageReceipt)
        self.stored.append(body)

    async def _read(self, connection: MeshConnection) -> None:
        answer = await connection.fetch([self._inbox.entry(connection)])
        assert list(answer.listed[self._inbox.key]) == [hash_sealed_bytes(body) for body in self.stored]

    async def _dial(self) -> MeshConnection:
        place = self._node.place
        return await MeshConnection.connect(place.host, place.port, node=place.node_key)


def percentile_99(took: list[float]) -> float:
    return took[min(len(took) - 1, len(took) * 99 // 100)]


def held_bytes(node: LocalNode) -> int:
    database = Database(node.directory.database, schema="node")
    journal = Journal(database, SystemEntropy())
    mailbox = SqliteMailbox(database, journal, tag_secret=b"t" * 32)
    store = SqliteMeshStore(database, journal, tag_secret=b"t" * 32, sources=mailbox.sources)
    try:
        return store.total_bytes() + mailbox.total_bytes()
    finally:
        store.close()
        mailbox.close()
        database.close()


@clause("6.6", "6.8", "7.12")
@pytest.mark.parametrize("seconds", first_now_rest_in_soak([1, 20]))
async def test_ten_times_the_honest_load_of_a_flood_slows_honest_people_little_and_keeps_the_quota(
    tmp_path: Path, seconds: int
) -> None:
    ours, strangers = processors()
    with running_on(ours), small_node(tmp_path) as node:
        honest = Honest(node)
        alone = await honest.run(seconds)
        with flooded(node, strangers) as flooding:
            among = await honest.run(seconds)
            handled = flooding.end()
    assert handled >= MANY_TIMES * len(among), (handled, len(among))
    assert held_bytes(node) <= QUOTA.total_bytes
    if seconds > 1:  # else too few requests for a percentile
        assert percentile_99(among) <= MOST_SLOWER * percentile_99(alone), (percentile_99(among), percentile_99(alone))
