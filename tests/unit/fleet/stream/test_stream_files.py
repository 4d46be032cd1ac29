"""How the files of a stream come to disk."""

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from restante.fleet.stream.bucket_files import BucketWriter, FileRef, background_sync
from restante.fleet.stream.compaction import FAN, compact
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

ROWS = pa.table({"event_id": pa.array([bytes(16), bytes(15) + b"\1"], pa.binary()), "source_file": ["a", "b"]})


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@clause("13.9")
def test_a_file_that_cannot_be_brought_to_disk_is_told_before_anything_names_it() -> None:
    reading, writing = os.pipe()  # which no system can sync
    before = descriptors()
    with pytest.raises(OSError, match="Invalid argument"), background_sync() as sync:
        sync(writing)
    assert descriptors() == before
    os.close(reading)
    os.close(writing)


def test_what_failed_meanwhile_is_told_rather_than_the_disk() -> None:
    reading, writing = os.pipe()

    def work() -> None:
        with background_sync() as sync:
            sync(writing)
            raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        work()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("level", [0, 1])
def test_a_table_is_read_as_it_was_written_however_it_is_packed(tmp_path: Path, level: int) -> None:
    writer = BucketWriter(str(tmp_path), 0, tmp_path / "cache")
    with background_sync() as sync:
        [ref] = replace(writer, sync=sync).write_table("repeats", ROWS, level=level)
    assert writer.read_table(ref).equals(ROWS)
    packing = writer.open_table(ref).metadata.row_group(0).column(0).compression
    assert packing == ("ZSTD" if level else "LZ4")


def test_buckets_merge_their_files_in_turns(tmp_path: Path) -> None:
    merged_in = []
    for bucket in range(FAN):
        writer, refs = BucketWriter(str(tmp_path), bucket, tmp_path / "cache"), tuple[FileRef, ...]()
        for batch in range(2 * FAN):
            refs = compact(writer, "repeats", (*refs, *writer.write_table("repeats", ROWS)))
            if any(ref.level for ref in refs):
                merged_in.append(batch)
                break
    assert sorted(merged_in) == list(range(FAN - 1, 2 * FAN - 1))
