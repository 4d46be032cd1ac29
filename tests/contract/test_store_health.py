"""Whether a node's store can be used is found out by using it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.node.safe_logging import Reason
from restante.node.store_health import FRESH_S, StoreHealth, StoreStatus, WatchedFile
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from support.spec.clauses import clause


@dataclass
class Store:
    database: Database
    file: WatchedFile
    health: StoreHealth
    takes_puts: bool = True

    async def anew(self) -> StoreStatus:
        """A fresh answer, as after a second."""
        self.health._asked_at_s = asyncio.get_running_loop().time() - FRESH_S
        return await self.health.check()


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Store]:
    database = Database(path, schema="node", busy_timeout_ms=20)
    commits = GroupCommit(database)
    file = WatchedFile(database, commits)
    store = Store(database, file, StoreHealth(database, file, takes_puts=lambda: store.takes_puts))
    try:
        yield store
    finally:
        commits.close()
        database.close()


@clause("6.9")
async def test_a_store_that_takes_a_write_is_usable(tmp_path: Path) -> None:
    async with opened(tmp_path / "node.db") as store:
        assert await store.health.check() == StoreStatus(usable=True)


async def test_an_answer_is_given_again_for_a_second_without_another_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "node.db") as store:
        await store.health.check()
        written = store.database.changes()
        await asyncio.gather(*(store.health.check() for _ in range(10)))
        assert store.database.changes() == written
        await store.anew()
        assert store.database.changes() > written


@clause("6.9")
async def test_after_a_failed_put_there_must_be_room_for_the_largest_message(tmp_path: Path) -> None:
    async with opened(tmp_path / "node.db") as store:
        await store.health.check()
        [(pages,)] = store.database.run("PRAGMA page_count")
        store.database.run(f"PRAGMA max_page_count = {pages}")
        assert (await store.anew()).usable  # a few bytes still find room
        store.takes_puts = False
        assert await store.anew() == StoreStatus(usable=False, reason=Reason.CANNOT_WRITE, code=Code.STORE_UNUSABLE)
        store.database.run("PRAGMA max_page_count = 1000000")
        assert (await store.anew()).usable
        assert store.database.run("SELECT count(*) FROM meta WHERE key = 'probe'") == [(0,)]  # nothing is left behind


@clause("6.9")
async def test_a_store_that_another_process_holds_is_not_usable_for_so_long(tmp_path: Path) -> None:
    async with opened(tmp_path / "node.db") as store:
        other = Database(tmp_path / "node.db", schema="node")
        with other.transaction():
            assert (await store.anew()).reason is Reason.CANNOT_WRITE
        assert (await store.anew()).usable
        other.close()


@clause("1.3", "6.9")
@pytest.mark.parametrize("lost", ["node.db", "node.db-wal"])
async def test_a_file_that_was_replaced_takes_nothing_more_even_if_it_comes_back(tmp_path: Path, lost: str) -> None:
    async with opened(tmp_path / "node.db") as store:
        assert (await store.health.check()).usable
        (tmp_path / lost).rename(tmp_path / "aside")
        (tmp_path / lost).touch()
        assert await store.anew() == StoreStatus(usable=False, reason=Reason.FILE_GONE, code=Code.STORE_UNUSABLE)
        with pytest.raises(StoreUnusable, match="removed or replaced"):
            await store.file.run(lambda: store.database.run("DELETE FROM meta"))
        (tmp_path / "aside").replace(tmp_path / lost)
        assert not (await store.anew()).usable
