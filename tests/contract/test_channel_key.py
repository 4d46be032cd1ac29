"""What waits for a channel lies sealed on disk, and only under its own key (SPEC 8.6)."""

import stat
from pathlib import Path

import pytest

from restante.client.channel_key import key_file
from restante.client.channels import Enqueued
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.errors import StoreUnusable
from restante.model.ids import MessageId
from restante.runtime.private_file import create_private
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.testing.memory_channel import MemoryChannel
from restante.wire.channel_chunk import SEAL_BYTES
from support.channels.fixtures import draft, place
from support.spec.clauses import clause

NEWS = "the vault opens at noon"


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


@clause("8.6")
async def test_no_byte_on_disk_shows_what_waits_for_a_channel(tmp_path: Path) -> None:
    here = place(tmp_path)
    channels = here.open(ops=MemoryChannel())
    await channels.deliver(draft(f"**{NEWS}**"))
    files = contents(tmp_path)
    assert any(len(content) > 4_096 for content in files)
    assert not any(NEWS.encode() in content for content in files)
    await channels.close()


async def test_what_waited_is_sent_after_a_restart_under_the_same_key(tmp_path: Path) -> None:
    here = place(tmp_path)
    first = here.open(ops=MemoryChannel())
    await first.deliver(draft(NEWS))
    await first.close()
    ops = MemoryChannel()
    second = here.open(ops=ops)
    await second.drain()
    assert ops.texts == [NEWS]
    await second.close()


@clause("8.6")
async def test_the_key_file_is_for_its_owner_alone_and_refused_otherwise(tmp_path: Path) -> None:
    here = place(tmp_path)
    await here.open(ops=MemoryChannel()).close()
    key = key_file(here.path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o640)
    with pytest.raises(StoreUnusable, match="is accessible to other users"):
        here.open(ops=MemoryChannel())


@pytest.mark.parametrize(
    ("other", "says"), [(None, "is missing"), (bytes(32), "is not the one"), (b"short", "must have 32 bytes")]
)
async def test_a_file_is_refused_without_its_key_and_is_whole_once_the_key_is_back(
    tmp_path: Path, other: bytes | None, says: str
) -> None:
    here = place(tmp_path)
    first = here.open(ops=MemoryChannel())
    await first.deliver(draft(NEWS))
    await first.close()
    path = key_file(here.path)
    key = path.read_bytes()
    path.unlink()
    if other is not None:
        create_private(path, other)
    with pytest.raises(StoreUnusable, match=says):
        here.open(ops=MemoryChannel())
    assert path.exists() == (other is not None)
    path.unlink(missing_ok=True)
    assert create_private(path, key)
    ops = MemoryChannel()
    again = here.open(ops=ops)
    await again.drain()
    assert ops.texts == [NEWS]
    await again.close()


async def test_two_texts_exchanged_on_disk_are_not_sent(tmp_path: Path) -> None:
    here = place(tmp_path)
    ops = MemoryChannel()
    channels = here.open(ops=ops)
    ids: list[MessageId] = []
    for text in ("for one", "for another"):
        queued = await channels.deliver(draft(text))
        assert isinstance(queued, Enqueued)
        ids += queued.message_ids

    def exchange(store: SqliteOutbox) -> None:
        texts = [store.load(each) for each in ids]
        for message_id, entry in zip(ids, reversed(texts), strict=True):
            assert entry is not None
            store.replace_payload(message_id, entry.payload)

    await channels.outbox.within(exchange)
    await channels.drain()
    assert ops.asked == []
    await channels.close()


def test_a_file_that_exists_is_not_created_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert create_private(path, b"first")
    assert not create_private(path, b"second")
    assert path.read_bytes() == b"first"
    assert [found.name for found in tmp_path.iterdir()] == ["key"]


def test_sealing_adds_as_much_as_the_largest_chunk_leaves_room_for() -> None:
    sealed = StorageSeal(bytes(32)).seal(b"chunk", nonce=bytes(NONCE_BYTES), context=b"")
    assert len(sealed) == len(b"chunk") + SEAL_BYTES
