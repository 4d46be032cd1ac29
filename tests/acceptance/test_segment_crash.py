"""A machine that dies while it ships its journal."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from restante.fleet.lake.segments import find_segments
from restante.model.ids import event_number
from restante.model.journal import JournalKind
from restante.runtime.journal import segment_writer
from restante.runtime.journal.segment_directory import DirectoryDepot
from restante.runtime.sqlite.file.journal import Journal
from restante.wire.journal_schema import from_record
from restante.wire.segment_manifest import manifest_name
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, facts, open_node_file

SHIP_AND_DIE = """
import os, signal, sys
from pathlib import Path
from restante.runtime.journal.segment_directory import DirectoryDepot
from restante.runtime.journal.segment_writer import ship
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy

home, fatal_sync = Path(sys.argv[1]), int(sys.argv[2])
syncs = 0

def die_at(handle):
    global syncs
    syncs += 1
    if syncs == fatal_sync:
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die_at
ship(Journal(Database(home / "node.db", schema="node"), SystemEntropy()), DirectoryDepot(home / "out"))
"""
# The syncs of a manifest, of the directory, of its segment, of the directory again.
BEFORE_THE_MANIFEST, AFTER_THE_MANIFEST, BEFORE_THE_RENAME, AFTER_BOTH = 1, 2, 3, 4


def note(node: NodeFile) -> None:
    with node.database.transaction():
        for _ in range(3):
            node.journal.append(JournalKind.SECURITY, at_ms=NOW_MS)


def die_while_shipping(home: Path, moment: int) -> NodeFile:
    """A node with three facts whose process was killed at that moment; opened again."""
    node = open_node_file(home / "node.db")
    note(node)
    node.database.close()
    ended = subprocess.run([sys.executable, "-c", SHIP_AND_DIE, str(home), str(moment)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    return open_node_file(home / "node.db")


def names(directory: Path) -> list[str]:
    """What lies there besides manifests."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("_"))


def manifests(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("_"))


def ship(journal: Journal, directory: Path) -> list[Path]:
    return [directory / name for name in segment_writer.ship(journal, DirectoryDepot(directory))]


def numbers(paths: list[Path]) -> list[int]:
    rows = [from_record(record) for path in paths for record in parquet.read_table(path).to_pylist()]
    return [event_number(row.event_id) for row in rows]


@clause("13.1")
@pytest.mark.parametrize("moment", [BEFORE_THE_MANIFEST, AFTER_THE_MANIFEST, BEFORE_THE_RENAME])
def test_a_crash_before_the_rename_leaves_nothing_that_looks_like_a_segment(tmp_path: Path, moment: int) -> None:
    node = die_while_shipping(tmp_path, moment)
    assert not list((tmp_path / "out").glob("[!.]*.parquet"))
    assert len(manifests(tmp_path / "out")) == (moment != BEFORE_THE_MANIFEST)
    assert node.journal.shipped_through() == 0
    [path] = ship(node.journal, tmp_path / "out")
    assert names(tmp_path / "out") == [path.name]
    assert numbers([path]) == [1, 2, 3]
    node.database.close()


@clause("13.1")
def test_a_crash_after_the_rename_ships_the_same_file_again_and_nothing_twice(tmp_path: Path) -> None:
    node = die_while_shipping(tmp_path, AFTER_BOTH)
    [whole] = (tmp_path / "out").glob("*.parquet")
    assert numbers([whole]) == [1, 2, 3]
    assert len(manifests(tmp_path / "out")) == 1
    assert node.journal.shipped_through() == 0
    assert ship(node.journal, tmp_path / "out") == [whole]
    assert names(tmp_path / "out") == [whole.name]
    assert manifests(tmp_path / "out") == [manifest_name(whole.name)]
    node.database.close()


@clause("13.1")
@pytest.mark.parametrize("moment", [BEFORE_THE_MANIFEST, AFTER_THE_MANIFEST, BEFORE_THE_RENAME, AFTER_BOTH])
def test_facts_added_between_the_crash_and_the_next_shipping_are_all_there_and_told_apart(
    tmp_path: Path, moment: int
) -> None:
    node = die_while_shipping(tmp_path, moment)
    note(node)
    ship(node.journal, tmp_path / "out")
    assert set(numbers(list((tmp_path / "out").glob("*.parquet")))) == {1, 2, 3, 4, 5, 6}
    assert len(facts(node.journal)) == 6
    _, bad = find_segments(tmp_path / "out")
    assert bad == []  # a manifest whose events were shipped again speaks of nothing that is gone
    node.database.close()
