"""Opens one SQLite file: durable commits, schema created at first use, files of another kind or version refused.

Decides how a file is opened and translates SQLite's errors into ours. It does not know what is stored.
"""

import contextlib
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NoReturn

import apsw

from restante.model.errors import DiskFull, LocalProtocolError, StoreUnusable
from restante.runtime.sqlite.file.statement_batching import Column, together
from restante.wire.journal_schema import sqlite_columns

BUSY_TIMEOUT_MS: Final = 5_000
PAGE_BYTES: Final = 4_096
CHECKPOINT_PAGES: Final = {"client": 2_000, "node": 4_000}
"""The write-ahead log may grow to 8 or 16 MB before a checkpoint, so that a page written often is copied once. Syncing
a growing log takes longer than overwriting one, which slows a single sender but not a busy node."""
CACHED_STATEMENTS: Final = 1_024
"""Prepared statements that a connection keeps. Each use of any statement advances the place that is emptied next, so
one that was not used for so many executions must be parsed again: with APSW's 100, every fifth message of a sender did.
"""
_QUERY_HEADER: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"--.*$", re.MULTILINE)
_APPLICATION_IDS: Final = {"client": 0x52535443, "node": 0x5253544E}
"""Written into the file's header, "RSTC" or "RSTN", so that a client's file is never opened as a node's, nor a file of
another program as ours."""


_UNKNOWN: Final = -1
_NO_SPACE: Final = "the disk is full or failing ({}); free space and try again"
_VERBS: Final = "IUD"
"""Deferred statements are written in this order: a new row before its changes, a deletion last."""
_PART_OF_THE_OUTER: Final = contextlib.nullcontext()


class Database:
    """A connection with `synchronous=FULL`: when a transaction returns, it is on disk (SPEC 1.3).

    With `read_only` the file is neither created nor written, and a transaction is a snapshot of it.
    Rows given to `defer` are written together, before the next statement that is not deferred.
    """

    def __init__(
        self, path: Path, *, schema: str, busy_timeout_ms: int = BUSY_TIMEOUT_MS, read_only: bool = False
    ) -> None:
        self.path = path
        self.read_only = read_only
        self.in_transaction = False
        self.is_disk_full: Callable[[], bool] = lambda: False  # while it is, stores refuse what only adds data
        self.may_grow: Callable[[], bool] = lambda: True  # whether what adds data before it frees some may go on
        self._begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
        self._data_version = _UNKNOWN
        self._deferred: dict[str, list[tuple[Column, ...]]] = {}
        self._deferred_rows = 0
        self._settled_changes = 0
        self._forgetting: list[Callable[[], None]] = []
        self._settling: list[Callable[[], None]] = []
        self._committed: list[Callable[[], None]] = []
        with _translated(path):
            self._connection = _look_into(path) if read_only else _connect(path)
            self._connection.set_busy_timeout(busy_timeout_ms)
            # Otherwise SQLite plans a statement again whenever a bound value of a range changes.
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self._cursor = self._connection.cursor()
            try:
                self._refuse_strangers(schema)
                if read_only:
                    self._refuse_other_schemas(schema)
                    return
                # One statement each: in a string of several, those after the first that returns a row would not run.
                self._connection.pragma("page_size", PAGE_BYTES)
                self._connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES[schema])
                for pragma, value in (("journal_mode", "wal"), ("synchronous", "full"), ("foreign_keys", "on")):
                    self._connection.pragma(pragma, value)
                self._create(schema)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with _translated(self.path):
            self._connection.close()

    def on_invalidate(self, forget: Callable[[], None]) -> None:
        """Call `forget` when cached rows may be wrong: another connection wrote, or a transaction was rolled back."""
        self._forgetting.append(forget)

    def before_commit(self, settle: Callable[[], None]) -> None:
        """Call `settle` before each commit, to write out what was kept in memory until then."""
        self._settling.append(settle)

    def after_commit(self, committed: Callable[[], None]) -> None:
        """Call `committed` when a transaction is on disk, in the thread that committed it."""
        self._committed.append(committed)

    def watch_log(self, grown: Callable[[int], None]) -> None:
        """Call `grown` after each commit with the number of pages in the log. Automatic checkpoints are then off."""

        def committed(_connection: apsw.Connection, _schema: str, pages: int) -> int:
            grown(pages)
            return apsw.SQLITE_OK

        self._connection.set_wal_hook(committed)

    def checkpoint(self) -> None:
        """Move the log's pages into the file, except those that a reader still uses."""
        with _translated(self.path):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Commit everything in the block or nothing. A transaction inside another is part of the outer one."""
        return _PART_OF_THE_OUTER if self.in_transaction else self._outermost()

    @contextlib.contextmanager
    def _outermost(self) -> Iterator[None]:
        self.begin()
        try:
            yield
            if not self.read_only:
                self.write_deferred()
        except BaseException:
            self.roll_back()
            raise
        if self.read_only:
            self.roll_back()  # COMMIT fails once a statement met a damaged page
        else:
            self.commit()

    def begin(self) -> None:
        try:
            self._cursor.execute(self._begin)
            version = self._connection.data_version()
        except BaseException as failure:  # noqa: BLE001 - raised again
            self.roll_back()
            self._translate(failure)
        self.in_transaction = True
        if version != self._data_version:
            self._forget()

    def commit(self) -> None:
        """Commit what is written; it is on disk when this returns. If it raises, the transaction was rolled back."""
        try:
            if not self._connection.in_transaction:
                self._refuse_to_go_on()
            self.in_transaction = False
            self._cursor.execute("COMMIT")
        except BaseException as failure:  # noqa: BLE001 - raised again
            self.roll_back()
            self._translate(failure)
        try:
            # SQLite counts the commits of all connections in it, so it differs once another connection has committed.
            self._data_version = self._connection.data_version()
        except (apsw.Error, OSError):
            self._data_version = _UNKNOWN
        for committed in self._committed:
            committed()

    def write_deferred(self) -> None:
        """Write deferred rows now: before `commit`, which then only has to wait for the disk."""
        for settle in self._settling:
            settle()
        if self._deferred:
            self._write_deferred()

    def roll_back(self) -> None:
        self.in_transaction = False
        self._data_version = _UNKNOWN
        self._deferred.clear()
        self._forget()
        if self._connection.in_transaction:
            with _translated(self.path):
                self._connection.execute("ROLLBACK")

    def run(self, sql: str, **values: Column) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Tables are STRICT: a column's declared type is the type of its values."""
        return self._fetch(sql, values)

    def rows(self, sql: str, *values: Column) -> list[tuple[Any, ...]]:
        """Do as `run`, with positional values: faster, for statements on the hot path."""
        return self._fetch(sql, values)

    def query_without_writing(self, sql: str, *values: Column) -> list[tuple[Any, ...]]:
        """Do as `rows`, without writing deferred rows first. The statement must not depend on them."""
        return self._execute(sql, values)

    def defer(self, sql: str, values: tuple[Column, ...]) -> None:
        """Write this row later, with the commit at the latest.

        Rows of different statements may change their order: inserts are written first, then updates, then deletes.
        """
        if not self.in_transaction:
            raise LocalProtocolError("rows can be deferred only inside a transaction")
        self._deferred_rows += 1
        rows = self._deferred.get(sql)
        if rows is None:
            self._deferred[sql] = [values]
        else:
            rows.append(values)

    def defer_many(self, sql: str, rows: Sequence[tuple[Column, ...]]) -> None:
        """Do as `defer`, for many rows of one statement, which keep their order."""
        if not self.in_transaction:
            raise LocalProtocolError("rows can be deferred only inside a transaction")
        if rows:
            self._deferred_rows += len(rows)
            self._deferred.setdefault(sql, []).extend(rows)

    def changes(self) -> int:
        """Return a number that grows with each row written or deferred: it shows whether an operation wrote."""
        return self._connection.total_changes() - self._settled_changes + self._deferred_rows

    def _fetch(self, sql: str, values: Mapping[str, Column] | tuple[Column, ...]) -> list[tuple[Any, ...]]:
        if self._deferred:
            self._write_deferred()
        return self._execute(sql, values)

    def _execute(self, sql: str, values: Mapping[str, Column] | tuple[Column, ...]) -> list[tuple[Any, ...]]:
        if self.in_transaction and not self._connection.in_transaction:
            self._refuse_to_go_on()
        try:
            return self._cursor.execute(sql, values).fetchall()
        except BaseException as failure:  # noqa: BLE001 - raised again
            self._translate(failure)

    def _write_deferred(self) -> None:
        if not self._connection.in_transaction:
            self._refuse_to_go_on()
        before = self._connection.total_changes()
        deferred, self._deferred = self._deferred, {}
        try:
            for sql in sorted(deferred, key=_write_order):
                rows = deferred[sql]
                if len(rows) == 1:
                    self._cursor.execute(sql, rows[0])
                else:
                    for wide, values in together(sql, rows):
                        self._cursor.execute(wide, values)
        except BaseException as failure:  # noqa: BLE001 - raised again
            self._translate(failure)
        self._settled_changes += self._connection.total_changes() - before

    def _translate(self, failure: BaseException) -> NoReturn:
        """Raise `failure` as our error. A context manager around each statement would cost as much as a statement."""
        with _translated(self.path):
            raise failure

    def _forget(self) -> None:
        for forget in self._forgetting:
            forget()

    def reusable_bytes(self) -> int:
        """Return how much the next rows take before the file grows: pages whose rows were deleted."""
        with _translated(self.path):
            return int(self._connection.pragma("freelist_count")) * PAGE_BYTES

    def last_insert(self) -> int:
        return self._connection.last_insert_rowid()

    def _refuse_to_go_on(self) -> NoReturn:
        """Refuse further statements: SQLite rolled the transaction back when the disk failed."""
        raise StoreUnusable(f"{self.path.name}: the transaction failed before; nothing of it was kept")

    def _refuse_strangers(self, schema: str) -> None:
        """Refuse a database of another program or of another kind."""
        [(tables,)] = self._connection.execute("SELECT count(*) FROM sqlite_schema")
        if (tables or self.read_only) and self._connection.pragma("application_id") != _APPLICATION_IDS[schema]:
            raise StoreUnusable(f"{self.path.name} is a database, but not a {schema}'s file; open another file")

    def _refuse_other_schemas(self, schema: str) -> None:
        """Refuse a file of another schema version. There are no migrations before the first release."""
        at = int(self._connection.pragma("user_version"))
        if at != schema_version(schema):
            raise StoreUnusable(
                f"{self.path.name} has schema {at}, this version of Restante reads {schema_version(schema)} only:"
                " open it with the version that made it, or move it away to begin with an empty file"
            )

    def _create(self, schema: str) -> None:
        with self.transaction():
            [(tables,)] = self._connection.execute("SELECT count(*) FROM sqlite_schema")
            if not tables:
                self._connection.execute(_schema_text(schema))
                self._connection.pragma("application_id", _APPLICATION_IDS[schema])
                self._connection.pragma("user_version", schema_version(schema))
        self._refuse_other_schemas(schema)


@cache
def _write_order(sql: str) -> int:
    return _VERBS.index(sql[0])


@cache
def schema_version(schema: str) -> int:
    """Return the version of a kind of file."""
    return version_of(_schema_text(schema))


def version_of(statements: str) -> int:
    """Return a number made from the statements of a schema, so that every change of a table changes it.

    Comments and layout do not count. It is never 0, which SQLite writes into a new file.
    """
    return zlib.crc32(_shortened(statements).encode()) % 0x7FFFFFFF + 1


def _schema_text(schema: str) -> str:
    text = files("restante.runtime.sqlite").joinpath("schema", f"{schema}.sql").read_text(encoding="utf-8")
    return text.replace("{journal_columns}", sqlite_columns())


def load_queries(name: str, **parts: str) -> Mapping[str, str]:
    """Return the named statements of `runtime/sqlite/NAME.sql`, without comments and layout.

    APSW looks a prepared statement up by its text each time it runs, so that short texts are faster. `parts` replace
    `{placeholders}`.
    """
    text = files("restante.runtime.sqlite").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    for placeholder, replacement in parts.items():
        text = text.replace(f"{{{placeholder}}}", replacement)
    _, *found = _QUERY_HEADER.split(text)
    return dict(zip(found[::2], map(_shortened, found[1::2]), strict=True))


def _shortened(statement: str) -> str:
    """Remove comments and layout. No quoted text in our files contains two adjacent spaces or dashes."""
    return " ".join(_COMMENT.sub("", statement).split())


def _connect(path: Path) -> apsw.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created here with mode 0600, so that no other user can ever read it.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return apsw.Connection(str(path), statementcachesize=CACHED_STATEMENTS)


def _look_into(path: Path) -> apsw.Connection:
    # Not SQLITE_OPEN_READONLY: such a connection leaves its -wal and -shm files behind.
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=CACHED_STATEMENTS)
    connection.pragma("query_only", "on")
    # A killed program may have left a log beside the file: read it, but leave the checkpoint to the next writer.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(_has_rest(path)))
    return connection


def _has_rest(path: Path) -> bool:
    wal = path.with_name(f"{path.name}-wal")
    return wal.exists() and wal.stat().st_size > 0


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the file system into errors that say what to do."""
    try:
        yield
    except apsw.FullError as error:
        raise DiskFull(f"{path.name}: {_NO_SPACE.format(error)}") from error
    except apsw.IOError as error:
        raise StoreUnusable(f"{path.name}: {_NO_SPACE.format(error)}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreUnusable(f"{path.name} is still locked by another process; nothing was changed") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreUnusable(f"{path.name} is damaged or no database ({error}); restore it from a backup") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, OSError) as error:
        raise StoreUnusable(f"{path.name} cannot be opened for writing: {error}") from error
