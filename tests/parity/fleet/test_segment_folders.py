"""Segments with manifests that speak of something else, in directories here and in those only Hadoop knows."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.backfill import backfill
from restante.fleet.lake.file_systems import LocalFolder
from restante.fleet.lake.layout import Lake, StorePath
from restante.fleet.lake.segment_discovery import segments_here, segments_of
from restante.fleet.lake.segments import Segment, find_segments, inspect_segments, read_segments
from restante.model.conservation_report import BadSegment
from restante.model.error_codes import Code
from restante.model.errors import EnvironmentUnsuitable, RestanteError, StoreUnusable
from restante.model.journal import JournalKind
from restante.policy.settings import Settings
from restante.runtime.journal.segment_writer import PackedSegment, pack
from restante.wire.journal_schema import COLUMNS
from restante.wire.segment_manifest import Manifest, decode_manifest, encode_manifest, manifest_name
from support.fleet.journal_files import Journal, message, records, write_segment, writer
from support.spec.clauses import clause

NOON_MS = 1_767_614_400_000
NOBODY = 65_534


def packed(number: int, rows: int = 3) -> PackedSegment:
    """A segment as writers ship it, of `rows` facts."""
    nothing = [None] * rows
    kinds = [JournalKind.SECURITY.value] * rows
    made = pack(writer(number), [[range(1, rows + 1), [NOON_MS] * rows, kinds, *[nothing] * (len(COLUMNS) - 2)]])
    assert made is not None
    return made


def put(directory: Path, segment: PackedSegment, change: Callable[[Manifest], Manifest] = lambda said: said) -> str:
    (directory / segment.name).write_bytes(segment.raw)
    manifest = encode_manifest(change(decode_manifest(segment.manifest)))
    (directory / manifest_name(segment.name)).write_bytes(manifest)
    return segment.name


def lie_about_rows(said: Manifest) -> Manifest:
    return replace(said, rows=said.rows + 1, last=said.last + 1)


@pytest.fixture
def odd(tmp_path: Path) -> tuple[Path, list[str], list[BadSegment]]:
    """A directory with one good segment of each kind and one of each oddity: what is read, and what is named."""
    put(tmp_path, packed(1))
    alone = packed(2)
    (tmp_path / alone.name).write_bytes(alone.raw)
    torn = packed(3)
    put(tmp_path, torn)
    beside = manifest_name(torn.name)
    (tmp_path / beside).write_bytes(b"{")
    size = put(tmp_path, packed(4), lambda said: replace(said, size_bytes=said.size_bytes - 1))
    rows = put(tmp_path, packed(5), lie_about_rows)
    other = put(tmp_path, packed(6), lambda said: replace(said, sha256="0" * 64))
    moved = put(tmp_path, packed(7), lambda said: replace(said, segment=alone.name))
    gone = put(tmp_path, packed(8))
    (tmp_path / gone).unlink()
    good = [packed(1).name, alone.name, torn.name]
    actual = len(packed(4).raw)
    bad = [
        BadSegment(name=size, reason=f"{actual} bytes, and its manifest says {actual - 1}"),
        BadSegment(name=rows, reason="3 rows, and its manifest says 4"),
        BadSegment(name=other, reason="its hash is not the one its manifest says"),
        BadSegment(name=moved, reason="its manifest speaks of another segment"),
        BadSegment(name=gone, reason="gone: only its manifest is there"),
        BadSegment(name=beside, reason="the manifest is not JSON"),
    ]
    return tmp_path, good, bad


Odd = tuple[Path, list[str], list[BadSegment]]


@clause("13.2")
def test_a_segment_is_held_against_its_manifest_and_read_without_one(odd: Odd) -> None:
    directory, good, bad = odd
    assert find_segments(directory) == ([Segment(path=directory / name, rows=3) for name in good], bad)
    assert find_segments(directory.as_uri()) == find_segments(directory)


@clause("13.2")
def test_a_directory_that_only_hadoop_knows_is_judged_the_same(spark: SparkSession, odd: Odd) -> None:
    directory, good, bad = odd
    address = mounted(spark, directory)
    segments, named = find_segments(address, spark)
    assert segments == [Segment(path=StorePath(f"{address}/{name}"), rows=3) for name in good]
    assert named == bad
    read = read_segments(spark, segments)
    assert sorted({row["source_file"] for row in read.collect()}) == good
    assert read.count() == 9


def mounted(spark: SparkSession, directory: Path) -> str:
    """The directory under an address of another of Hadoop's file systems, which no path of this machine stands for."""
    name = f"test{abs(hash(directory))}"
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./odd [1] %20", directory.as_uri())
    return f"viewfs://{name}/odd [1] %20"


def test_segments_that_only_hadoop_knows_are_read_and_tables_there_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Tables are written by deltalake, which knows no such store."""
    journal = Journal(writer(1))
    journal.write(JournalKind.ACCEPTED, message(1), NOON_MS)
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path / "segments" / "a.parquet", records(journal.rows))
    lake = Lake(mounted(spark, tmp_path))
    assert segments_here(lake) is None
    found = segments_of(lake, spark)
    assert [segment.rows for segment in found.segments] == [1]
    with pytest.raises(StoreUnusable, match="cannot be"):
        backfill(spark, lake, Settings(), found.segments, found.bad, listing=found.listing, is_published=False)


def test_what_is_no_directory_there_is_named_and_so_is_an_unknown_scheme(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(RestanteError, match="is not a directory") as nowhere:
        find_segments(f"{mounted(spark, tmp_path)}/nowhere", spark)
    assert nowhere.value.code is Code.NOT_FOUND
    with pytest.raises(RestanteError, match="holds no journal segments"):
        find_segments(mounted(spark, tmp_path), spark)
    with pytest.raises(EnvironmentUnsuitable, match=r"s9://b/x: Spark has no file system for it .*jars\.packages"):
        find_segments("s9://b/x", spark)
    with pytest.raises(RestanteError, match="is not on this machine, and has to be"):
        find_segments("s9://b/x")


def test_files_and_directories_that_may_not_be_read_are_named_with_the_reason() -> None:
    with tempfile.TemporaryDirectory() as name:  # not below tmp_path, whose parents are closed to other users
        directory = Path(name)
        directory.chmod(0o755)
        segment = put(directory, packed(1))
        closed = put(directory, packed(2))
        (directory / closed).chmod(0o000)
        was_root = os.geteuid() == 0  # whom permissions do not bind
        if was_root:
            os.seteuid(NOBODY)
        try:
            good, bad = find_segments(directory)
            assert [each.path.name for each in good] == [segment]
            assert bad == [BadSegment(name=closed, reason="cannot be read: Permission denied")]
            if was_root:
                os.seteuid(0)
            directory.chmod(0o000)
            if was_root:
                os.seteuid(NOBODY)
            with pytest.raises(StoreUnusable, match="cannot be read: Permission denied"):
                find_segments(directory)
        finally:
            if was_root:
                os.seteuid(0)
            directory.chmod(0o700)


def test_segments_of_a_plan_are_held_against_their_manifests_too(tmp_path: Path) -> None:
    good = put(tmp_path, packed(1))
    bad = put(tmp_path, packed(2), lambda said: replace(said, sha256="0" * 64))
    short = put(tmp_path, packed(3), lie_about_rows)
    segments, rejected = inspect_segments(LocalFolder(tmp_path), [good, bad, short])
    assert segments == [Segment(path=tmp_path / good, rows=3)]
    assert [(one.name, one.reason) for one in rejected] == [
        (bad, "its hash is not the one its manifest says"),
        (short, "3 rows, and its manifest says 4"),
    ]
