"""A hostile or broken file is named before any of its rows costs anything."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from restante.fleet.lake.segment_bounds import (
    MAX_SEGMENT_DAYS,
    MAX_VALUE_BYTES,
    MAX_VALUES_BYTES,
    MAX_VALUES_BYTES_PER_ROW,
)
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


def write_repeated(path: Path, column: str, value: str | bytes, rows: int, **options: Any) -> None:
    """Rows that all have the same value in one column."""
    journal = Journal(writer(1))
    for number in range(rows):
        journal.write(JournalKind.ACCEPTED, message(number), 0)
    table = pa.Table.from_pylist(records(journal.rows), schema=SEGMENT)
    place = SEGMENT.get_field_index(column)
    same = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    table = table.set_column(place, column, same if options.get("use_dictionary", True) else same.dictionary_decode())
    parquet.write_table(table, path, compression="zstd", store_schema=False, **options)


@clause("13.2")
@pytest.mark.parametrize("column", ["code", "answer", "event_id"])
def test_a_small_file_whose_rows_share_one_enormous_value_is_rejected(tmp_path: Path, column: str) -> None:
    """Java would write it out for every row, and its process would end."""
    letters = "a" * (MAX_VALUE_BYTES + 1)
    write_repeated(tmp_path / "hostile.parquet", column, letters if column == "code" else letters.encode(), 100)
    assert (tmp_path / "hostile.parquet").stat().st_size < 20_000
    good, [bad] = find_segments(tmp_path)
    assert good == []
    assert bad.reason == f"{column}: a value of {MAX_VALUE_BYTES + 1:,} bytes; one has at most {MAX_VALUE_BYTES:,}"


@clause("13.2")
@pytest.mark.parametrize(
    "options",
    [{}, {"use_dictionary": False, "column_encoding": {"code": "DELTA_BYTE_ARRAY"}}],
    ids=["dictionary", "shared prefixes"],
)
def test_a_small_file_whose_values_take_too_much_together_is_rejected(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = MAX_VALUES_BYTES // (MAX_VALUE_BYTES - MAX_VALUES_BYTES_PER_ROW)
    write_repeated(tmp_path / "hostile.parquet", "code", "a" * MAX_VALUE_BYTES, rows + 1, **options)
    write_repeated(tmp_path / "just.parquet", "code", "a" * MAX_VALUE_BYTES, rows - 10, **options)
    assert (tmp_path / "hostile.parquet").stat().st_size < 1_000_000
    good, bad = find_segments(tmp_path)
    assert [segment.path.name for segment in good] == ["just.parquet"]
    limit = MAX_VALUES_BYTES + (rows + 1) * MAX_VALUES_BYTES_PER_ROW
    assert bad == [
        BadSegment(name="hostile.parquet", reason=f"its values take more than {limit:,} bytes when written out")
    ]


def one_row() -> pa.Table:
    journal = Journal(writer(1))
    journal.write(JournalKind.ACCEPTED, message(0), 0)
    return pa.Table.from_pylist(records(journal.rows), schema=SEGMENT)


@clause("13.2")
@pytest.mark.parametrize(
    ("values", "kind"),
    [([["a"]], pa.list_(pa.string())), ([{"a": "b"}], pa.struct([("a", pa.string())]))],
    ids=["list", "struct"],
)
def test_a_column_that_holds_further_columns_is_of_another_type(tmp_path: Path, values: list[Any], kind: Any) -> None:
    table = one_row()
    place = SEGMENT.get_field_index("code")
    parquet.write_table(table.set_column(place, "code", pa.array(values, kind)), tmp_path / "hostile.parquet")
    good, bad = find_segments(tmp_path)
    assert good == []
    assert bad == [BadSegment(name="hostile.parquet", reason="code: the column must be string")]


@clause("13.2")
@pytest.mark.parametrize("name", ["code", "Code"])
def test_a_file_with_two_columns_of_one_name_is_rejected(tmp_path: Path, name: str) -> None:
    """For Spark, names that differ in upper and lower case are the same."""
    table = one_row()
    twice = pa.table([*table.columns, table["code"]], names=[*table.column_names, name])
    parquet.write_table(twice, tmp_path / "hostile.parquet")
    good, bad = find_segments(tmp_path)
    assert good == []
    assert bad == [BadSegment(name="hostile.parquet", reason="code: the column is there twice")]


@clause("13.2")
def test_a_column_whose_name_differs_in_case_only_is_not_taken_for_a_newer_one(tmp_path: Path) -> None:
    """Spark would read it, and nobody would have looked at its type and values."""
    table = one_row()
    names = [name.replace("code", "Code") for name in table.column_names]
    parquet.write_table(table.rename_columns(names), tmp_path / "hostile.parquet")
    good, bad = find_segments(tmp_path)
    assert good == []
    assert bad == [BadSegment(name="hostile.parquet", reason="code: the column has another name")]


@clause("13.2")
def test_a_file_whose_column_has_a_name_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "hostile.parquet"
    parquet.write_table(one_row(), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"payload_hash", b"p\x82yload_hash"))
    assert find_segments(tmp_path) == ([], [BadSegment(name="hostile.parquet", reason="not a whole Parquet file")])


@clause("13.2")
def test_a_file_that_says_it_holds_less_than_no_rows_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "hostile.parquet"
    parquet.write_table(pa.concat_tables([one_row()] * 50), path, store_schema=False)
    raw = path.read_bytes()
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    fifty, minus_fifty = b"\x16\x64", b"\x16\x63"  # Thrift: a 64-bit integer, zigzag
    path.write_bytes(raw[:footer] + raw[footer:].replace(fifty, minus_fifty))
    assert find_segments(tmp_path) == ([], [BadSegment(name="hostile.parquet", reason="not a whole Parquet file")])


@clause("13.2")
@pytest.mark.parametrize("size", [-8, 2**40])
def test_a_file_whose_pages_lie_outside_of_it_is_rejected(tmp_path: Path, size: int) -> None:
    path = tmp_path / "hostile.parquet"
    parquet.write_table(one_row(), path, store_schema=False)
    raw = path.read_bytes()
    chunk = parquet.read_metadata(path).row_group(0).column(SEGMENT.get_field_index("kind"))
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    changed = raw[footer:-8].replace(thrift_long(chunk.total_compressed_size), thrift_long(size))
    path.write_bytes(raw[:footer] + changed + len(changed).to_bytes(4, "little") + raw[-4:])
    assert find_segments(tmp_path) == ([], [BadSegment(name="hostile.parquet", reason="not a whole Parquet file")])


def thrift_long(number: int) -> bytes:
    """A field of 64 bits in Thrift's compact form: its type, then its bits in sevens."""
    left = number << 1 if number >= 0 else ((-number) << 1) - 1
    raw = bytearray(b"\x16")
    while left > 127:
        raw.append(left & 127 | 128)
        left >>= 7
    return bytes(raw) + bytes([left])
