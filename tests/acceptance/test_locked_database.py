"""A database that another process holds."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database

HOLD = """
import sys
from pathlib import Path
from restante.runtime.sqlite.file.database import Database

database = Database(Path(sys.argv[1]), schema="node")
with database.transaction():
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate("let go\n", timeout=30)
    finally:
        holder.kill()
        holder.wait()


def remember(database: Database, key: str) -> None:
    with database.transaction():
        database.run("INSERT INTO meta (key, value) VALUES (:key, x'00')", key=key)


def test_a_write_gives_up_clearly_while_another_process_holds_the_file_and_works_afterwards(tmp_path: Path) -> None:
    database = Database(tmp_path / "node.db", schema="node", busy_timeout_ms=50)
    with held_by_another_process(database.path):
        with pytest.raises(StoreUnusable, match=r"node\.db is still locked by another process; nothing was changed"):
            remember(database, "refused")
        assert database.run("SELECT key FROM meta") == []  # reading goes on
    remember(database, "taken")
    assert database.run("SELECT key FROM meta") == [("taken",)]
    database.close()


def test_a_file_cannot_be_opened_while_another_process_writes_for_longer_than_the_wait(tmp_path: Path) -> None:
    Database(tmp_path / "node.db", schema="node").close()
    with (
        held_by_another_process(tmp_path / "node.db"),
        pytest.raises(StoreUnusable, match="is still locked by another process"),
    ):
        Database(tmp_path / "node.db", schema="node", busy_timeout_ms=50)
