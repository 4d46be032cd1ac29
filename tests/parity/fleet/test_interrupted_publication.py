"""A publication that ends between two tables leaves nothing wrong: the next one makes the tables of all events."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.publication import Publication
from restante.fleet.jobs.publish import published
from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.layout import Lake
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.table import Table
from restante.model.journal import JournalKind
from support.fleet.dataframes import tables_of
from support.fleet.incremental_lakes import COMPARED, plain, update
from support.fleet.journal_files import Journal, message, node_id, records, write_segment, writer
from support.fleet.troubled_fleet import DAY_MS, NOON_MS, NOW_MS, accept, store
from support.spec.clauses import clause

EARLY, CONTRADICTED = 60, 61
IN_TEST = "messages"


class Interrupted(Exception):
    """Stands for a kill: of the publication only what it committed is left."""


def fleet() -> tuple[Journal, Journal, Journal]:
    """Journals of a sender, a recipient and a node."""
    sender, recipient, node = (Journal(writer(number)) for number in (21, 22, 23))
    accept(sender, CONTRADICTED)
    sender.write(JournalKind.ATTEMPTED, message(CONTRADICTED), NOON_MS + 5, attempt=1)
    accept(sender, EARLY, NOON_MS - DAY_MS)
    recipient.write(JournalKind.RELEASED, message(EARLY), NOON_MS, session_tag=b"t" * 16, sequence=0)
    node.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(7))
    store(node, EARLY)
    store(node, CONTRADICTED)
    node.write(JournalKind.NODE_STARTED, None, NOON_MS + 90, node=node_id(8))
    return sender, recipient, node


@pytest.fixture(scope="module")
def ready(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose tables are published, and a batch that is not.

    In it, a message known by its release alone turns out to be of the day before; the event that names the sealed bytes
    of another is contradicted; and a writer turns out to be another node than it was.
    """
    root = tmp_path_factory.mktemp("ready")
    lake = Lake(str(root))
    lake.local_segments.mkdir()
    sent, released, stored = (records(journal.rows) for journal in fleet())
    write_segment(lake.local_segments / "first.parquet", [*sent[:2], *released, *stored[:3]])
    assert update(spark, lake) == 1
    write_segment(lake.local_segments / "then.parquet", [{**sent[0], "at_ms": NOON_MS + 1}, sent[2], stored[3]])
    assert update(spark, lake, is_published=False) == 2
    return root


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[str, Any]:
    journals = fleet()
    del journals[0].rows[0]
    with tables_of(spark, *journals, now_ms=NOW_MS) as tables:
        return {table.name: plain(tables[table.name]) for table in COMPARED}


@clause("13.3", "13.9")
@pytest.mark.parametrize(
    "last", [pytest.param(table.name, marks=[] if table.name == IN_TEST else pytest.mark.soak) for table in DERIVED]
)
def test_the_publication_after_one_that_was_killed_makes_the_tables_of_all_events(
    spark: SparkSession,
    tmp_path: Path,
    ready: Path,
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    *,
    last: str,
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    shutil.copytree(ready, lake.root)
    note = Publication._note

    def interrupted(self: Publication, table: Table, files: DeltaFiles) -> None:
        note(self, table, files)
        if table.name == last:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Publication, "_note", interrupted)
        with pytest.raises(Interrupted):
            update(spark, lake)
    assert update(spark, lake) == 2
    tables = published(spark, lake, batch=2)
    assert tables is not None
    for table in COMPARED:
        assert plain(tables[table.name]) == expected[table.name], table.name
