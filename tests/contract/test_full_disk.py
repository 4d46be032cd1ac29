"""On a full disk clients and nodes refuse new mail, and go on with what frees space (SPEC 1.4, 6.7)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from restante.client.outbox import Message, Outbox
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey, MessageId
from restante.model.states import Route, State
from restante.policy.quota import DISK_FULL, MailboxQuota, Refusal
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.client_file import ClientFile
from restante.runtime.sqlite.file.integrity import check_file
from restante.runtime.sqlite.file.node_file import NodeFile
from restante.runtime.sqlite.file.space_reserve import RESERVE_BYTES, SpaceReserve
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.wire.acks import AckType
from support.outbox.scripted_carrier import MESH, Wire
from support.relay.puts import keep
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS
from support.system.small_disk import SmallDisk

MB = 1024 * 1024
CAPACITY_BYTES = 40 * MB


class Seconds:
    """A clock that moves on by two seconds with each look, so that every commit checks the disk."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 2.0
        return self.now_s


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path)
    with made.plugged_in():
        yield made


def opened(disk: SmallDisk) -> Outbox:
    path, entropy = disk.directory / "mail.db", SeededEntropy(1)
    reserve = SpaceReserve(path, free_bytes=disk.free_bytes, time_s=Seconds())
    file = ClientFile.open(path, entropy=entropy, reserve=reserve)
    return Outbox(file, settings=Settings(), clock=FakeClock(), entropy=entropy, owns_file=True)


async def fill(outbox: Outbox) -> list[MessageId]:
    """Send until the disk is full; return the ids of what was accepted."""
    accepted: list[MessageId] = []
    for _ in range(400):
        try:
            receipt = await outbox.send(Message(payload=bytes(100_000)), MESH)
        except StoreUnusable:
            return accepted
        accepted.append(receipt.deliveries[0].message_id)
    raise AssertionError("the disk did not fill up")


def findings(outbox: Outbox) -> list[str]:
    return [each for check in check_file(outbox.file.database) for each in check.findings]


@clause("1.4", "3.2")
async def test_a_full_disk_stops_new_mail_and_neither_draining_nor_acks(disk: SmallDisk) -> None:
    outbox = opened(disk)
    disk.capacity_bytes = disk.used_bytes() + CAPACITY_BYTES
    accepted = await fill(outbox)
    assert len(accepted) > 10
    wire = Wire()
    await outbox.drain({Route.MESH: wire})
    assert len(wire.taken) == len(accepted)
    with pytest.raises(StoreUnusable, match="new mail is refused until there is space"):
        await outbox.send(Message(payload=b"x"), MESH)
    for message_id in accepted:
        await outbox.acknowledge(message_id, AckType.RECEIPT)
    assert await outbox.counts() == {}
    receipt = await outbox.send(Message(payload=b"x"), MESH)
    status = await outbox.status(receipt.deliveries[0].message_id)
    assert status is not None
    assert status.state is State.PENDING
    assert findings(outbox) == []
    disk.capacity_bytes = None
    await outbox.close()


async def test_a_client_drains_when_another_program_took_the_rest_of_the_disk(disk: SmallDisk) -> None:
    outbox = opened(disk)
    disk.capacity_bytes = disk.used_bytes() + CAPACITY_BYTES
    accepted = await fill(outbox)
    (disk.directory / "other").write_bytes(bytes(disk.free_bytes(disk.directory)))
    await outbox.drain({Route.MESH: Wire()})
    assert await outbox.counts() == {State.SENT: len(accepted)}
    disk.capacity_bytes = None
    await outbox.close()


def test_half_of_the_reserve_is_left_to_what_frees_space(tmp_path: Path) -> None:
    free_bytes = 40 * MB
    reserve = SpaceReserve(tmp_path / "mail.db", size_bytes=8 * MB, free_bytes=lambda _directory: free_bytes)
    free_bytes = 0
    assert reserve.may_grow()
    reserve.make_space()
    assert not reserve.may_grow()
    free_bytes = 4 * MB
    assert reserve.may_grow()
    free_bytes, reserve.reusable_bytes = 1 * MB, lambda: 3 * MB
    assert reserve.may_grow()


def test_space_inside_the_database_ends_a_full_disk_unless_nothing_is_left_for_its_log(tmp_path: Path) -> None:
    free_bytes = 0
    reserve = SpaceReserve(
        tmp_path / "mail.db", size_bytes=8 * MB, free_bytes=lambda _directory: free_bytes, time_s=Seconds()
    )
    reserve.release()
    reserve.reusable_bytes = lambda: 16 * MB
    reserve.check()
    assert reserve.is_full
    free_bytes = 1 * MB
    reserve.check()
    assert not reserve.is_full


def test_the_reserve_is_deleted_only_when_refusing_new_mail_was_not_enough(tmp_path: Path) -> None:
    reserve = SpaceReserve(tmp_path / "mail.db", size_bytes=MB, free_bytes=lambda _directory: 40 * MB)
    reserve.check()
    file = tmp_path / "mail.db-reserve"
    assert file.stat().st_size == MB
    assert (reserve.make_space(), reserve.is_full, file.exists()) == (True, True, True)
    assert (reserve.make_space(), reserve.is_full, file.exists()) == (True, True, False)
    assert reserve.make_space() is False


async def test_the_reserve_exists_only_while_space_is_scarce(disk: SmallDisk) -> None:
    outbox = opened(disk)
    reserve = disk.directory / "mail.db-reserve"
    await outbox.send(Message(payload=b"x"), MESH)
    assert not reserve.exists()
    disk.capacity_bytes = disk.used_bytes() + 40 * MB
    await outbox.send(Message(payload=b"x"), MESH)
    assert reserve.stat().st_size == RESERVE_BYTES
    disk.capacity_bytes = None
    await outbox.send(Message(payload=b"x"), MESH)
    assert not reserve.exists()
    await outbox.close()


ALICE = InboxKey(b"A" * 32)
HOUR_MS = 3_600_000


class FilledNode(NamedTuple):
    file: NodeFile
    mailbox: SqliteMailbox
    stored: list[int]


async def filled_node(disk: SmallDisk) -> FilledNode:
    """A node that stored blobs until it refused one: the disk is full."""
    path = disk.directory / "node.db"
    reserve = SpaceReserve(path, free_bytes=disk.free_bytes, time_s=Seconds())
    file = NodeFile.open(path, entropy=SeededEntropy(1), reserve=reserve)
    mailbox = SqliteMailbox(file.database, file.journal, tag_secret=b"secret")
    disk.capacity_bytes = disk.used_bytes() + CAPACITY_BYTES
    stored: list[int] = []
    for _ in range(400):
        answer = await put(file, mailbox)
        if isinstance(answer, Refusal):
            assert answer is DISK_FULL
            return FilledNode(file, mailbox, stored)
        stored.append(answer)
    raise AssertionError("the disk did not fill up")


async def put(file: NodeFile, mailbox: SqliteMailbox, size_bytes: int = 100_000) -> int | Refusal:
    keeps = [keep(ALICE, bytes(size_bytes))]
    [answer] = await file.run(lambda: mailbox.put_all(keeps, quota=MailboxQuota(), now_ms=NOW_MS))
    return answer


@clause("6.1", "6.7")
async def test_a_full_disk_stops_puts_and_neither_deletes_nor_reaping_at_a_node(disk: SmallDisk) -> None:
    file, mailbox, stored = await filled_node(disk)
    assert len(stored) > 10
    (disk.directory / "other").write_bytes(bytes(disk.free_bytes(disk.directory)))
    served = mailbox.flush(ALICE, after=0, limit=1_000, max_bytes=1 << 30, now_ms=NOW_MS)
    assert [blob.blob_id for blob in served.blobs] == stored
    for blob_id in stored[:10]:
        assert await file.run(partial(mailbox.delete_all, ALICE, [blob_id], now_ms=NOW_MS)) == 1
    assert await put(file, mailbox, size_bytes=10) is DISK_FULL
    assert await file.run(lambda: mailbox.reap(now_ms=NOW_MS + 31 * 24 * HOUR_MS)) == len(stored) - 10
    (disk.directory / "other").unlink()
    disk.capacity_bytes = None
    await file.run(lambda: mailbox.reap(now_ms=NOW_MS))
    assert isinstance(await put(file, mailbox), int)
    mailbox.close()
    file.close()
