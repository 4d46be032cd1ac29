"""One SQLite file: who may read it, what is refused, and that a transaction is all or nothing."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw
import pytest

from restante.model.errors import LocalProtocolError, StoreUnusable
from restante.runtime.sqlite.file.database import Database, schema_version, version_of
from restante.runtime.sqlite.file.statement_batching import WIDTHS
from support.spec.clauses import clause
from support.system.full_disk import no_file_longer_than

NOBODY = 65_534
KEEP = "INSERT INTO meta (key, value) VALUES (?, ?)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "node.db", schema="node")
    yield made
    made.close()


def keep(database: Database, key: str, size_bytes: int = 1) -> None:
    database.run("INSERT INTO meta (key, value) VALUES (:key, zeroblob(:size))", key=key, size=size_bytes)


def kept(database: Database) -> list[str]:
    return [key for (key,) in database.run("SELECT key FROM meta ORDER BY key")]


def refusal(path: Path, schema: str = "node") -> str:
    """The text with which the file is refused; no connection to it is left behind."""
    with pytest.raises(StoreUnusable) as refused:
        Database(path, schema=schema)
    assert refused.value.code.value == "E106"
    assert str(path) not in [connection.filename for connection in apsw.connections()]
    return str(refused.value)


def test_a_new_file_is_for_its_owner_only_and_so_are_those_beside_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = Database(tmp_path / "home" / "node.db", schema="node")
        keep(database, "a")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "home").iterdir()}
    finally:
        os.umask(before)
    assert modes == {"node.db": 0o600, "node.db-wal": 0o600, "node.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    database.close()


@clause("1.3")
@pytest.mark.parametrize("schema", ["client", "node"])
def test_every_file_is_synced_fully(tmp_path: Path, schema: str) -> None:
    for _first_and_again in range(2):
        database = Database(tmp_path / "some.db", schema=schema)
        assert database.run("PRAGMA synchronous") == [(2,)]  # FULL
        assert database.run("PRAGMA journal_mode") == [("wal",)]
        assert database.run("PRAGMA foreign_keys") == [(1,)]
        database.close()


@pytest.mark.parametrize("version", [0, 7])
def test_a_file_of_another_schema_is_refused_and_unchanged(tmp_path: Path, version: int) -> None:
    database = Database(tmp_path / "node.db", schema="node")
    database.run(f"PRAGMA user_version = {version}")
    database.close()
    before = (tmp_path / "node.db").read_bytes()
    text = refusal(tmp_path / "node.db")
    assert f"node.db has schema {version}, this version of Restante reads {schema_version('node')} only" in text
    assert (tmp_path / "node.db").read_bytes() == before


def test_a_clients_file_is_not_opened_as_a_nodes(tmp_path: Path) -> None:
    Database(tmp_path / "some.db", schema="client").close()
    assert refusal(tmp_path / "some.db", "node") == "some.db is a database, but not a node's file; open another file"
    Database(tmp_path / "some.db", schema="client").close()


def test_a_strangers_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "photos.db"))
    other.execute("CREATE TABLE photo (id INTEGER PRIMARY KEY)")
    other.close()
    before = (tmp_path / "photos.db").read_bytes()
    assert "open another file" in refusal(tmp_path / "photos.db")
    assert (tmp_path / "photos.db").read_bytes() == before


def test_a_text_file_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1_000, "utf-8")
    assert refusal(path).startswith("notes.txt is damaged or no database")
    assert path.read_text("utf-8") == "buy milk\n" * 1_000


@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_a_truncated_database_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "node.db"
    database = Database(path, schema="node")
    keep(database, "a", 500_000)
    database.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert refusal(path).startswith("node.db is damaged or no database")


def test_damage_found_only_while_reading_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    database = Database(path, schema="node")
    with database.transaction():
        for number in range(500):
            keep(database, f"{number:03d}", 200)
    database.close()
    raw = path.read_bytes()
    path.write_bytes(raw[:-40_960] + b"\xff" * 40_960)
    database = Database(path, schema="node")
    with pytest.raises(StoreUnusable, match=r"node\.db is damaged or no database .* restore it from a backup"):
        kept(database)
    database.close()


def test_a_directory_in_the_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node.db").mkdir()
    assert refusal(tmp_path / "node.db").startswith("node.db cannot be opened for writing: ")


def test_a_file_in_the_directorys_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a directory", "utf-8")
    assert refusal(tmp_path / "home" / "node.db").startswith("node.db cannot be opened for writing: ")


@contextmanager
def without_privileges() -> Iterator[None]:
    """As an ordinary user, whom permissions bind; the tests may run as root, whom they do not."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)


@pytest.fixture
def read_only_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # not below tmp_path, whose parents are closed to other users
        path = Path(name)
        path.chmod(0o555)
        yield path
        path.chmod(0o700)


def test_a_read_only_directory_is_refused(read_only_directory: Path) -> None:
    with without_privileges():
        text = refusal(read_only_directory / "node.db")
    assert text.startswith("node.db cannot be opened for writing: ")
    assert "Permission denied" in text


def test_a_read_only_file_is_refused(read_only_directory: Path) -> None:
    read_only_directory.chmod(0o700)
    Database(read_only_directory / "node.db", schema="node").close()
    (read_only_directory / "node.db").chmod(0o444)
    read_only_directory.chmod(0o555)
    with without_privileges():
        assert refusal(read_only_directory / "node.db").startswith("node.db cannot be opened for writing: ")


class Interrupted(Exception):
    """Something went wrong in the middle."""


@contextmanager
def interrupted_transaction(database: Database) -> Iterator[None]:
    """What is done inside is done, and then falls."""
    with suppress(Interrupted), database.transaction():
        yield
        raise Interrupted


def test_a_rollback_leaves_nothing(database: Database) -> None:
    keep(database, "before")
    with interrupted_transaction(database):
        keep(database, "inside")
        database.run("UPDATE meta SET value = x'ff' WHERE key = 'before'")
        assert kept(database) == ["before", "inside"]
    assert kept(database) == ["before"]
    assert database.run("SELECT value FROM meta") == [(b"\x00",)]


def test_an_inner_transaction_falls_with_the_outer(database: Database) -> None:
    with interrupted_transaction(database), database.transaction():
        keep(database, "inner")
    assert kept(database) == []


def test_an_inner_transaction_is_not_yet_seen_by_others(database: Database) -> None:
    other = Database(database.path, schema="node")
    with database.transaction():
        with database.transaction():
            keep(database, "inner")
        assert kept(other) == []
    assert kept(other) == ["inner"]
    other.close()


def test_an_inner_failure_fells_the_outer_transaction(database: Database) -> None:
    def fail_inside() -> None:
        keep(database, "outer")
        with database.transaction():
            keep(database, "inner")
            raise Interrupted

    with pytest.raises(Interrupted), database.transaction():
        fail_inside()
    assert kept(database) == []


def test_a_transaction_after_a_failed_one_is_whole_again(database: Database) -> None:
    with interrupted_transaction(database):
        keep(database, "first")
    with interrupted_transaction(database):
        keep(database, "second")
    with database.transaction():
        keep(database, "third")
    assert kept(database) == ["third"]


def fill_up(database: Database) -> None:
    """Let the file grow no further."""
    [(pages,)] = database.run("PRAGMA page_count")
    database.run(f"PRAGMA max_page_count = {pages}")


def keep_two(database: Database) -> None:
    with database.transaction():
        keep(database, "small")
        keep(database, "large", 500_000)


def test_a_full_database_refuses_keeps_what_it_had_and_goes_on_when_there_is_room(database: Database) -> None:
    keep(database, "before")
    fill_up(database)
    with pytest.raises(StoreUnusable, match=r"node\.db: the disk is full or failing"):
        keep_two(database)
    assert kept(database) == ["before"]
    database.run("PRAGMA max_page_count = 1000000")
    keep_two(database)
    assert kept(database) == ["before", "large", "small"]


def test_nothing_is_kept_of_a_transaction_that_went_on_after_the_disk_failed(database: Database) -> None:
    """SQLite has rolled back by then: without a guard, what follows would be committed alone."""
    fill_up(database)

    def go_on_regardless() -> None:
        keep(database, "first")
        with pytest.raises(StoreUnusable):
            keep(database, "large", 500_000)
        for name in ("second", "third"):
            with pytest.raises(StoreUnusable, match="nothing of it was kept"):
                keep(database, name)

    with pytest.raises(StoreUnusable, match="nothing of it was kept"), database.transaction():
        go_on_regardless()
    assert kept(database) == []
    keep(database, "later")
    assert kept(database) == ["later"]


@clause("1.3")
def test_a_commit_that_fails_is_told_and_leaves_nothing(database: Database) -> None:
    keep(database, "before")
    wal_bytes = database.path.with_name("node.db-wal").stat().st_size
    statements_done = []

    def write_much() -> None:
        with database.transaction():
            keep(database, "large", 500_000)
            statements_done.append(True)

    with no_file_longer_than(wal_bytes), pytest.raises(StoreUnusable, match="the disk is full or failing"):
        write_much()
    assert statements_done, "it was to fail at the commit, not before"
    assert kept(database) == ["before"]
    write_much()
    assert kept(database) == ["before", "large"]
    assert database.run("PRAGMA integrity_check") == [("ok",)]


def test_a_commit_that_is_refused_does_not_block_the_next(tmp_path: Path) -> None:
    """A broken reference is found at the end; SQLite then leaves the transaction open."""
    database = Database(tmp_path / "client.db", schema="client")
    database.run("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    database.run("CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)")

    def break_a_reference() -> None:
        with database.transaction():
            keep(database, "fallen")
            database.run("INSERT INTO child VALUES (1)")

    with pytest.raises(apsw.ConstraintError):
        break_a_reference()
    assert kept(database) == []
    with database.transaction():
        keep(database, "next")
    assert kept(database) == ["next"]
    database.close()


def test_deferred_rows_are_there_for_the_next_statement_in_their_order(database: Database) -> None:
    database.run("CREATE TABLE note (number INTEGER PRIMARY KEY, text TEXT) STRICT")
    insert = "INSERT INTO note (text) VALUES (?)"
    with database.transaction():
        database.defer_many(insert, [("a",), ("b",)])
        database.defer(insert, ("c",))
        database.defer_many(insert, [])
        database.defer_many(insert, [("d",)])
        assert [text for (text,) in database.rows("SELECT text FROM note ORDER BY number")] == ["a", "b", "c", "d"]


def test_many_deferred_rows_are_written_in_their_order(database: Database) -> None:
    database.run("CREATE TABLE note (number INTEGER PRIMARY KEY, text TEXT) STRICT")
    texts = [str(number) for number in range(3 * WIDTHS[0] + 1)]
    with database.transaction():
        before = database.changes()
        database.defer_many("INSERT INTO note VALUES (NULL, ?)", [(text,) for text in texts])
        assert [text for (text,) in database.rows("SELECT text FROM note ORDER BY number")] == texts
        assert database.changes() == before + len(texts)


def test_of_many_deferred_rows_with_one_that_breaks_a_rule_nothing_is_kept(database: Database) -> None:
    rows = [(str(number % (WIDTHS[0] + 5)), b"") for number in range(2 * WIDTHS[0])]
    with pytest.raises(apsw.ConstraintError), database.transaction():
        database.defer_many("INSERT INTO meta (key, value) VALUES (?, ?)", rows)
    assert kept(database) == []


def test_deferred_rows_are_committed_and_counted_once(database: Database) -> None:
    with database.transaction():
        before = database.changes()
        database.defer_many(KEEP, [("a", b""), ("b", b"")])
        assert database.changes() == before + 2
        database.write_deferred()
        assert database.changes() == before + 2
    assert kept(database) == ["a", "b"]


def test_deferred_rows_fall_with_their_transaction(database: Database) -> None:
    with interrupted_transaction(database):
        database.defer_many(KEEP, [("a", b""), ("b", b"")])
    with database.transaction():
        database.defer_many(KEEP, [("c", b"")])
    assert kept(database) == ["c"]


def test_of_deferred_rows_that_break_a_rule_nothing_is_kept(database: Database) -> None:
    with pytest.raises(apsw.ConstraintError), database.transaction():
        database.defer_many(KEEP, [("a", b""), ("a", b"")])
    assert kept(database) == []


def test_rows_cannot_be_deferred_outside_a_transaction(database: Database) -> None:
    with pytest.raises(LocalProtocolError):
        database.defer_many(KEEP, [("a", b"")])


def test_every_change_of_a_table_changes_the_version_of_its_schema() -> None:
    before = version_of("CREATE TABLE a (b TEXT);")
    assert before == version_of("-- why\nCREATE TABLE  a (b TEXT);\n") != version_of("CREATE TABLE a (c TEXT);")
    assert before > 0
