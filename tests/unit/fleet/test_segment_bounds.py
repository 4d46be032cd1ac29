"""A hostile or broken file is named before any of its rows costs anything."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from restante.fleet.lake.segment_bounds import MAX_SEGMENT_DAYS
from restante.fleet.lake.segments import find_segments
from restante.model.conservation_report import BadSegment
from restante.model.journal import JournalKind
from support.fleet.journal_files import SEGMENT, Journal, message, records, writer
from support.spec.clauses import clause

DAY_MS = 86_400_000


def write_days(path: Path, days: int, *, statistics: bool = True) -> None:
    journal = Journal(writer(1))
    for number in range(2 * days):
        journal.write(JournalKind.ACCEPTED, message(number), number // 2 * DAY_MS)
    table = pa.Table.from_pylist(records(journal.rows), schema=SEGMENT)
    parquet.write_table(table, path, row_group_size=50, write_statistics=statistics)


@clause("13.2")
@pytest.mark.parametrize("statistics", [True, False])
def test_a_file_with_rows_of_far_more_days_than_a_writer_keeps_is_rejected(tmp_path: Path, statistics: bool) -> None:
    """Each of its days would be a file of two tables, for ever."""
    write_days(tmp_path / "hostile.parquet", MAX_SEGMENT_DAYS + 1, statistics=statistics)
    write_days(tmp_path / "long.parquet", MAX_SEGMENT_DAYS, statistics=statistics)
    good, bad = find_segments(tmp_path)
    assert [segment.path.name for segment in good] == ["long.parquet"]
    assert bad == [BadSegment(name="hostile.parquet", reason=f"events of more than {MAX_SEGMENT_DAYS} days")]
