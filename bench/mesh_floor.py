"""Bare nodes: what a signed copy on disk, and a signed answer, cost in Python before there is a mesh.

A node process takes puts of one size over asyncio's own TLS, writes what came in one turn of its loop into a file that
has its size, syncs it once and signs it once. Asked by a smaller request, it signs an answer at once. It checks, looks
up, indexes and journals nothing. The client verifies each signature. So this is the floor under any node of this kind
on this machine, with as many processes and connections and as much in flight. With `STORE` it puts into a node's own
store instead, in one transaction with the journal (SPEC 1.4), and still checks nothing: the floor under a node that
keeps mail in SQLite.
"""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.kademlia_node import LOOPBACK
from bench.measure import Cost, cost_of, in_flight
from restante.core.mailbox import Keep
from restante.core.source_usage import SourceUsage
from restante.crypto.identity import Identity, is_signed_by
from restante.model.ids import BlindedKey, InboxKey, NodeKey, PayloadHash
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.policy.quota import MailboxQuota
from restante.runtime.sqlite.file.node_file import NodeFile
from restante.runtime.sqlite.mesh.store import MeshKeep, SqliteMeshStore
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.tls import client_context, server_context

PUT_BYTES: Final = 1_120
QUESTION_BYTES: Final = 128  # about a FETCH of one key
SIGNED_BYTES: Final = 32
ANSWER_BYTES: Final = SIGNED_BYTES + 64
FILE_BYTES: Final = 16_000_000  # about a node's write-ahead log: overwriting takes less than growing
PORTS: Final = 100
"""From the port of a node for puts to the one for questions."""
LOG, STORE = "log", "store"
"""What a node writes to: a file that is overwritten, or the store of a node of ours."""
INBOX_BYTES: Final = 32


class LogFile:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._at = 0
        os.pwrite(self._file, bytes(FILE_BYTES), 0)
        os.fsync(self._file)

    def commit(self, raw: bytes) -> None:
        self._at = 0 if self._at + len(raw) > FILE_BYTES else self._at
        self._at += os.pwrite(self._file, raw, self._at)
        os.fdatasync(self._file)


class NodeStore:
    """The store of a node. A put begins with its inbox key."""

    def __init__(self, path: Path) -> None:
        file = NodeFile.open(path, entropy=SystemEntropy())
        self._database = file.database
        self._store = SqliteMeshStore(file.database, file.journal, tag_secret=bytes(32), sources=SourceUsage())
        self._now_ms = SystemClock().now_ms()

    def commit(self, raw: bytes) -> None:
        puts = [raw[at : at + PUT_BYTES] for at in range(0, len(raw), PUT_BYTES)]
        with self._database.transaction():
            self._store.put_all(list(map(self._keep, puts)), quota=MailboxQuota(), now_ms=self._now_ms)

    def _keep(self, put: bytes) -> MeshKeep:
        key, hashed = InboxKey(put[:INBOX_BYTES]), PayloadHash(hashlib.sha256(put).digest())
        expires_at_ms = self._now_ms + 48 * HOUR_MS
        return MeshKeep(BlindedKey(key), bucket_at(self._now_ms), Keep(key, hashed, expires_at_ms, put))


class BareNode:
    def __init__(self, identity: Identity, file: LogFile | NodeStore) -> None:
        self._identity = identity
        self._file = file
        self._puts: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, puts: bytes) -> None:
        if not self._puts:
            asyncio.get_running_loop().call_soon(self._commit)
        self._puts.append((transport, puts))

    def ask(self, transport: asyncio.Transport, questions: bytes) -> None:
        starts = range(0, len(questions), QUESTION_BYTES)
        transport.write(b"".join([self._signed(questions[at : at + QUESTION_BYTES]) for at in starts]))

    def _commit(self) -> None:
        committed, self._puts = self._puts, []
        raw = b"".join([puts for _, puts in committed])
        self._file.commit(raw)
        answer = self._signed(raw)
        for transport, puts in committed:
            transport.write(answer * (len(puts) // PUT_BYTES))

    def _signed(self, raw: bytes) -> bytes:
        signed = hashlib.sha256(raw).digest()
        return signed + self._identity.sign(signed)


class _Whole(asyncio.Protocol):
    """Hands on as many whole pieces of one size as have come."""

    transport: asyncio.Transport

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        came = self._came + data
        whole = len(came) // self._size_bytes * self._size_bytes
        self._came = came[whole:]
        if whole:
            self.on_whole(came[:whole])

    def on_whole(self, pieces: bytes) -> None:
        raise NotImplementedError


class _AtNode(_Whole):
    def __init__(self, take: Callable[[asyncio.Transport, bytes], None], size_bytes: int) -> None:
        super().__init__(size_bytes)
        self._take = take

    def on_whole(self, pieces: bytes) -> None:
        self._take(self.transport, pieces)


class _AtClient(_Whole):
    def __init__(self, node: NodeKey) -> None:
        super().__init__(ANSWER_BYTES)
        self._key = node
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._corked: list[bytes] = []
        self._verified = b""

    def ask(self, raw: bytes) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        if not self._corked:
            loop.call_soon(self._uncork)
        self._corked.append(raw)
        answer: asyncio.Future[None] = loop.create_future()
        self._waiting.append(answer)
        return answer

    def on_whole(self, pieces: bytes) -> None:
        for at in range(0, len(pieces), ANSWER_BYTES):
            answer = pieces[at : at + ANSWER_BYTES]
            if answer != self._verified:
                assert is_signed_by(self._key, answer[SIGNED_BYTES:], answer[:SIGNED_BYTES])
                self._verified = answer
            self._waiting.popleft().set_result(None)

    def _uncork(self) -> None:
        self.transport.write(b"".join(self._corked))
        self._corked = []


def _identity(number: int) -> Identity:
    return Identity(number.to_bytes(32, "big"))


async def _run_node(number: int, port: int, path: Path, writes_to: str) -> None:
    identity = _identity(number)
    node = BareNode(identity, LogFile(path) if writes_to == LOG else NodeStore(path))
    loop, tls = asyncio.get_running_loop(), server_context(identity)
    await loop.create_server(lambda: _AtNode(node.put, PUT_BYTES), LOOPBACK, port, ssl=tls)
    await loop.create_server(lambda: _AtNode(node.ask, QUESTION_BYTES), LOOPBACK, port + PORTS, ssl=tls)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # its standard input ends


@contextmanager
def bare_nodes(count: int, *, port: int, folder: Path, writes_to: str) -> Iterator[list[int]]:
    """Run the nodes; yield their process ids."""
    with ExitStack() as stack:
        processes = []
        for number in range(count):
            given = [str(number), str(port + number), str(folder / f"{writes_to}-{number}"), writes_to]
            command = [sys.executable, "-m", "bench.mesh_floor", *given]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(process.communicate)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield [process.pid for process in processes]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorCosts:
    store: Cost
    answer: Cost
    kept: Cost
    """Stores of nodes that write to the store of a node."""


async def measure_floor(
    processes: list[int],
    *,
    port: int,
    stores: int,
    answers: int,
    width: int,
    places: int,
    readers: int,
    warm_up: int = 0,
) -> tuple[Cost, Cost]:
    """Put to five of the nodes at once, in one of `places` ways; ask one node, over one of `readers` connections."""
    count = len(processes)
    measured = partial(cost_of, width=width, processes=[os.getpid(), *processes])
    writing = [await _dial(number, port) for number in range(count)]
    reading = [await _dial(number % count, port + PORTS) for number in range(readers)]
    choices = [random.Random(each).sample(writing, COPIES) for each in range(places)]  # noqa: S311 - no secret

    async def store(number: int) -> None:
        inbox = (number % places).to_bytes(INBOX_BYTES, "big")
        raw = (inbox + number.to_bytes(8, "big")).ljust(PUT_BYTES, b"x")
        await asyncio.gather(*[node.ask(raw) for node in choices[number % places]])

    async def ask(number: int) -> None:
        await reading[number % readers].ask(number.to_bytes(8, "big").ljust(QUESTION_BYTES, b"x"))

    try:
        await in_flight(store, range(stores, stores + warm_up), width)
        return await measured(store, range(stores)), await measured(ask, range(answers))
    finally:
        for node in (*writing, *reading):
            node.transport.close()


async def _dial(number: int, port: int) -> _AtClient:
    key = _identity(number).node_key
    loop = asyncio.get_running_loop()
    _, node = await loop.create_connection(lambda: _AtClient(key), LOOPBACK, port + number, ssl=client_context())
    return node


if __name__ == "__main__":
    asyncio.run(_run_node(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
