"""A journal that leaves by itself, again and again."""

import asyncio
from pathlib import Path

import pytest
from pyarrow import parquet

from clauses import clause
from restante.model.errors import StoreUnusable
from restante.model.journal import JournalKind
from restante.runtime.journal.shipping import keep_shipping, ship_once
from sqlite_files import NOW_MS, NodeFile, open_node_file


def note(node: NodeFile, count: int) -> None:
    with node.database.transaction():
        for _ in range(count):
            node.journal.append(JournalKind.SECURITY, at_ms=NOW_MS)


def shipped_rows(directory: Path) -> int:
    return sum(parquet.read_metadata(path).num_rows for path in directory.glob("*.parquet"))


@clause("13.1")
async def test_facts_leave_each_time_it_wakes_and_a_bad_directory_only_delays_them(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    out = tmp_path / "out"
    out.write_text("in the way", "utf-8")
    troubles: list[StoreUnusable] = []
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            assert len(troubles) == 1
            assert node.journal.shipped_through() == 0
            out.unlink()
        elif len(waits) == 2:
            assert shipped_rows(out) == 3
            note(node, 2)
        else:
            raise asyncio.CancelledError

    note(node, 3)
    with pytest.raises(asyncio.CancelledError):
        await keep_shipping(node.journal, out, every_s=7, on_trouble=troubles.append, sleep=sleep)
    assert waits == [7, 7, 7]
    assert len(troubles) == 1
    assert shipped_rows(out) == 5
    node.database.close()


async def test_nothing_new_makes_no_file(tmp_path: Path) -> None:
    node = open_node_file(tmp_path / "node.db")
    assert await ship_once(node.journal, tmp_path / "out") == 0
    assert not (tmp_path / "out").exists()
    node.database.close()
