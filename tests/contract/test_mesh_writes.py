"""The writes of the mesh family: who waits for the disk."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import NodeKey
from restante.model.sources import Source
from restante.node.mesh.writes import ChangeWork, MeshWrites
from restante.node.write_batcher import COST_BYTES, QUICK_DISK_S, SMALL_BATCH, WHOLE_BATCH
from restante.policy.connection_limits import MIB, RelayLimits
from restante.policy.quota import MailboxQuota, Refusal
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.sqlite.mesh.store import SqliteMeshStore
from restante.testing.deterministic import SeededEntropy
from support.link.phases import HELLO
from support.spec.clauses import clause

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
        self.is_paused = False

    def send(self, raw: bytes) -> None: ...

    def refuse(self, request: int, refusal: Refusal, *, retry_after_ms: int = 0) -> None:
        assert (refusal, retry_after_ms) == (REFUSED, 0)
        self.answers.append(request)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None: ...

    def abort(self) -> None: ...


@contextlib.contextmanager
def mesh_writes(folder: Path, disk: TimedDisk) -> Iterator[MeshWrites]:
    file = Database(folder / "node.db", schema="node")
    journal = Journal(file, SeededEntropy(1))
    mailbox = SqliteMailbox(file, journal, tag_secret=bytes(32))
    store = SqliteMeshStore(file, journal, tag_secret=bytes(32), sources=mailbox.sources)
    yield MeshWrites(
        Identity(b"n" * 32),
        store,
        disk,
        quota=MailboxQuota(),
        limits=RelayLimits(),
        now_ms=lambda: 0,
        stamp_ms=lambda: 0,
        time_s=lambda: disk.time_s,
    )
    store.close()
    mailbox.close()
    file.close()


async def test_a_disk_that_was_quick_is_waited_for_on_the_loop_until_it_is_slow(tmp_path: Path) -> None:
    disk, peer = TimedDisk(), Peer()
    slow_s, large = QUICK_DISK_S + 0.001, SMALL_BATCH + 1
    rounds = (large, slow_s), (large, QUICK_DISK_S), (large, slow_s), (SMALL_BATCH, slow_s), (large, 0.0)
    with mesh_writes(tmp_path, disk) as writes:
        for changes, disk.takes_s in rounds:
            for number in range(changes):
                writes.add(ChangeWork(peer, peer.source, number, lambda: REFUSED, 1))
            await writes.finished()
    assert disk.apart == [True, True, False, False, True]
    assert len(peer.answers) == sum(changes for changes, _ in rounds)


@clause("6.8")
async def test_a_change_in_parts_is_answered_once_and_others_are_stored_between_its_parts(tmp_path: Path) -> None:
    """The parts of one source, and the change of another that comes while they wait."""
    disk, peer, other = TimedDisk(), Peer(), Peer()
    performed: list[str] = []

    def change_of_other() -> Refusal:
        performed.append("other")
        return REFUSED

    def part(number: int) -> ChangeWork:
        def change() -> Refusal | ChangeWork:
            performed.append(f"part {number}")
            if number == 0:
                writes.add(ChangeWork(other, Source(b"other"), 7, change_of_other, 1))
            return part(number + 1) if number < 9 else REFUSED

        return ChangeWork(peer, peer.source, 1, change, 1, rows=WHOLE_BATCH)

    with mesh_writes(tmp_path, disk) as writes:
        writes.add(part(0))
        await writes.finished()
    assert performed == ["part 0", "other", *(f"part {number}" for number in range(1, 10))]
    assert (peer.answers, other.answers) == ([1], [7])


@clause("6.8")
async def test_connections_of_a_source_over_its_share_stay_paused_until_it_is_within_it(tmp_path: Path) -> None:
    """60 changes of 1 MiB, each of a connection of its own: after each commit only so many are read from as the limit
    leaves room for."""
    disk, peers = TimedDisk(), [Peer() for _ in range(60)]
    disk.takes_s = QUICK_DISK_S
    half = RelayLimits().max_uncommitted_bytes // 2
    seen: list[tuple[int, bool]] = []

    with mesh_writes(tmp_path, disk) as writes:
        left = len(peers)

        def change() -> Refusal:
            nonlocal left
            seen.append((left * MIB, any(each.is_paused for each in peers)))
            left -= 1
            return REFUSED

        for number, peer in enumerate(peers):
            writes.add(ChangeWork(peer, peer.source, number, change, MIB))
        await writes.finished()
    over = [is_paused for pending, is_paused in seen if pending > half + WHOLE_BATCH * COST_BYTES]
    assert len(over) > 10
    assert all(over)
    assert not any(each.is_paused for each in peers)
