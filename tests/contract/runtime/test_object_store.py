"""Segments in depots that are no directory of this machine: a file system of another kind, and an object store."""

import io
from pathlib import Path

import pytest
from pyarrow import fs, parquet

from restante.model.errors import ConfigurationInvalid, StoreUnusable
from restante.model.journal import JournalKind
from restante.runtime.journal.object_store import StoreDepot, open_depot
from restante.runtime.journal.segment_directory import DirectoryDepot, SegmentStore
from restante.runtime.journal.segment_writer import ship
from restante.wire.segment_manifest import decode_manifest
from support.fleet.fake_s3 import small_s3
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, NodeFile, open_node_file


@pytest.fixture
def node(tmp_path: Path) -> NodeFile:
    made = open_node_file(tmp_path / "node.db")
    with made.database.transaction():
        for _ in range(3):
            made.journal.append(JournalKind.SECURITY, at_ms=NOW_MS)
    return made


def ship_twice(node: NodeFile, depot: SegmentStore) -> str:
    """As after a crash before the mark: the same file again."""
    [name] = ship(node.journal, depot)
    node.journal.mark_shipped(0)
    assert ship(node.journal, depot) == [name]
    return name


@clause("13.1")
def test_a_file_system_of_another_kind_gets_whole_files_by_renaming_and_the_same_again(
    tmp_path: Path, node: NodeFile
) -> None:
    (tmp_path / "lake").mkdir()
    depot = StoreDepot(fs.SubTreeFileSystem(str(tmp_path / "lake"), fs.LocalFileSystem()), "/some/segments/")
    name = ship_twice(node, depot)
    there = tmp_path / "lake" / "some" / "segments"
    manifest = f"_{name.removesuffix('.parquet')}.manifest.json"
    assert {path.name for path in there.iterdir()} == {name, manifest}
    assert parquet.read_metadata(there / name).num_rows == 3
    node.database.close()


def test_a_file_system_that_fails_says_so_and_keeps_no_draft(tmp_path: Path, node: NodeFile) -> None:
    in_the_way = tmp_path / "segments"
    in_the_way.write_text("a file", "utf-8")
    with pytest.raises(StoreUnusable, match="cannot be written to the store"):
        ship(node.journal, StoreDepot(fs.LocalFileSystem(), str(in_the_way)))
    assert node.journal.shipped_through() == 0
    node.database.close()


@clause("13.1")
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_an_object_store_gets_a_segment_and_its_manifest_by_one_upload_each(node: NodeFile, scheme: str) -> None:
    with small_s3() as store:
        name = ship_twice(node, open_depot(store.address(scheme, "bucket/lake/segments")))
    stem = name.removesuffix(".parquet")
    assert list(store.objects) == [f"/bucket/lake/segments/_{stem}.manifest.json", f"/bucket/lake/segments/{name}"]
    manifest, raw = store.objects.values()
    assert parquet.read_metadata(io.BytesIO(raw)).num_rows == 3
    assert (decode_manifest(manifest).size_bytes, decode_manifest(manifest).rows) == (len(raw), 3)
    node.database.close()


def test_an_object_store_that_refuses_only_delays(node: NodeFile) -> None:
    with small_s3() as store:
        store.refuses = True
        depot = open_depot(store.address("s3", "bucket/lake"))
        with pytest.raises(StoreUnusable) as refused:
            ship(node.journal, depot)
        assert "secret" not in str(refused.value)
        assert node.journal.shipped_through() == 0
        store.refuses = False
        ship(node.journal, depot)
    assert node.journal.shipped_through() == 3
    node.database.close()


def test_hadoop_without_its_library_is_unreachable_in_one_line(node: NodeFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(StoreUnusable, match="the store for journal segments cannot be reached: ") as unreachable:
        ship(node.journal, open_depot("hdfs://namenode/segments"))
    assert "\n" not in str(unreachable.value)
    node.database.close()


def test_an_address_of_this_machine_is_a_directory(tmp_path: Path, node: NodeFile) -> None:
    depot = open_depot((tmp_path / "a b").as_uri())
    assert isinstance(depot, DirectoryDepot)
    ship_twice(node, depot)
    assert len(list((tmp_path / "a b").glob("*.parquet"))) == 1
    node.database.close()


@pytest.mark.parametrize("text", ["", "somewhere", "./here", "file://relative", "ftp://host/x", "S4://x"])
def test_what_names_no_depot_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"^--to"):
        open_depot(text, key="--to")
