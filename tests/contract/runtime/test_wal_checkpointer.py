"""Checkpoints beside the commits: the log stays short, everything stays there, and a commit never fails for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.wal_checkpointer import Checkpoints

PAGES = 50
PAGE_AND_FRAME_BYTES = 4_096 + 24


class WatchedDatabase(Database):
    """Counts the checkpoints of its own connection, and can be told to fail them."""

    checkpoints = 0
    fails = False

    def checkpoint(self) -> None:
        self.checkpoints += 1
        if self.fails:
            raise StoreUnusable("node.db: the disk is full or failing")
        super().checkpoint()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[WatchedDatabase]:
    made = WatchedDatabase(tmp_path / "node.db", schema="node")
    yield made
    made.close()


def keep(database: Database, number: int) -> None:
    with database.transaction():
        database.run("INSERT INTO meta (key, value) VALUES (:key, zeroblob(10000))", key=f"{number:05d}")


def kept(path: Path) -> int:
    other = Database(path, schema="node", read_only=True)
    [(count,)] = other.run("SELECT count(*) FROM meta")
    other.close()
    return int(count)


def log_bytes(database: Database) -> int:
    return database.path.with_name(f"{database.path.name}-wal").stat().st_size


def wait_for_checkpoint(checkpoints: Checkpoints) -> None:
    if checkpoints._in_progress is not None:
        checkpoints._in_progress.result()


def test_the_log_stays_short_and_nothing_is_lost(database: WatchedDatabase) -> None:
    checkpoints = Checkpoints(database, schema="node", pages=PAGES)
    for number in range(300):
        keep(database, number)
        wait_for_checkpoint(checkpoints)
    assert log_bytes(database) < 2 * PAGES * PAGE_AND_FRAME_BYTES  # it would be some 1,500 pages
    assert database.checkpoints > 0
    checkpoints.close()
    assert kept(database.path) == 300


def test_a_short_log_is_left_alone(database: WatchedDatabase) -> None:
    checkpoints = Checkpoints(database, schema="node", pages=PAGES)
    keep(database, 1)
    assert checkpoints._in_progress is None
    checkpoints.close()
    assert database.checkpoints == 0


def test_a_checkpoint_that_fails_fails_no_commit(database: WatchedDatabase) -> None:
    database.fails = True
    checkpoints = Checkpoints(database, schema="node", pages=PAGES)
    for number in range(100):
        keep(database, number)
        wait_for_checkpoint(checkpoints)
    assert database.checkpoints > 0
    checkpoints.close()
    assert kept(database.path) == 100


def test_once_closed_the_writer_empties_the_log_by_itself(database: WatchedDatabase) -> None:
    Checkpoints(database, schema="node", pages=PAGES).close()
    for number in range(100):
        keep(database, number)
    assert log_bytes(database) < 2 * PAGES * PAGE_AND_FRAME_BYTES
    assert kept(database.path) == 100


def test_a_reader_in_the_way_delays_the_log_but_no_commit(database: WatchedDatabase) -> None:
    checkpoints = Checkpoints(database, schema="node", pages=PAGES)
    keep(database, 0)
    reader = Database(database.path, schema="node", read_only=True)
    with reader.transaction():
        assert reader.run("SELECT count(*) FROM meta") == [(1,)]
        for number in range(1, 100):
            keep(database, number)
            wait_for_checkpoint(checkpoints)
    grown = log_bytes(database)
    assert grown > 2 * PAGES * PAGE_AND_FRAME_BYTES
    for number in range(100, 200):
        keep(database, number)
        wait_for_checkpoint(checkpoints)
    assert log_bytes(database) < grown + PAGES * PAGE_AND_FRAME_BYTES  # begun anew, so that it grows no more
    reader.close()
    checkpoints.close()
    assert kept(database.path) == 200
