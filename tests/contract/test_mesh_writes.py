"""The writes of the mesh family: who waits for the disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import NodeKey
from restante.model.sources import Source
from restante.node.mesh.writes import ChangeWork, MeshWrites
from restante.node.write_batcher import QUICK_DISK_S, SMALL_BATCH
from restante.policy.connection_limits import RelayLimits
from restante.policy.quota import MailboxQuota, Refusal
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.store import SqliteMeshStore
from restante.testing.deterministic import SeededEntropy
from support.link.phases import HELLO

REFUSED = Refusal(permanent=False, code=Code.STORAGE_FAILED, text="an answer")
Result = TypeVar("Result")


class TimedDisk:
    """A commit queue whose commits end at once, after `takes_s` on the clock of the test."""

    def __init__(self) -> None:
        self.time_s = self.takes_s = 0.0
        self.apart: list[bool] = []

    async def run(self, operation: Callable[[], Result]) -> Result:
        return operation()

    def start(self, operation: Callable[[], object], *, apart: bool) -> asyncio.Future[object]:
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        answer.set_result(operation())
        self.apart.append(apart)
        self.time_s += self.takes_s
        return answer


class Peer:
    """Satisfies `node.frame_family.Peer`."""

    hello = HELLO
    binding = bytes(32)
    is_open = True
    can_write = True
    node_key: NodeKey | None = None
    source = Source(b"net")
    remote = ("127.0.0.1", 1)

    def __init__(self) -> None:
        self.answers: list[int] = []

    def send(self, raw: bytes) -> None: ...

    def refuse(self, request: int, refusal: Refusal, *, retry_after_ms: int = 0) -> None:
        assert (refusal, retry_after_ms) == (REFUSED, 0)
        self.answers.append(request)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


async def test_a_disk_that_was_quick_is_waited_for_on_the_loop_until_it_is_slow(tmp_path: Path) -> None:
    file = Database(tmp_path / "node.db", schema="node")
    journal = Journal(file, SeededEntropy(1))
    mailbox = SqliteMailbox(file, journal, tag_secret=bytes(32))
    store = SqliteMeshStore(file, journal, tag_secret=bytes(32), sources=mailbox.sources)
    disk, peer = TimedDisk(), Peer()
    writes = MeshWrites(
        Identity(b"n" * 32),
        store,
        disk,
        quota=MailboxQuota(),
        limits=RelayLimits(),
        now_ms=lambda: 0,
        time_s=lambda: disk.time_s,
    )
    slow_s, large = QUICK_DISK_S + 0.001, SMALL_BATCH + 1
    rounds = (large, slow_s), (large, QUICK_DISK_S), (large, slow_s), (SMALL_BATCH, slow_s), (large, 0.0)
    for changes, disk.takes_s in rounds:
        for number in range(changes):
            writes.add(ChangeWork(peer, peer.source, number, lambda: REFUSED, 1))
        await writes.finished()
    assert disk.apart == [True, True, False, False, True]
    assert len(peer.answers) == sum(changes for changes, _ in rounds)
    store.close()
    mailbox.close()
    file.close()
