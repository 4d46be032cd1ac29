"""One SQLite file: opened durably, migrated forward, never silently misread.

Decides how a file is opened and how SQLite's failures become ours; knows nothing of what is stored.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import apsw

from restante.model.errors import StoreUnusable

BUSY_TIMEOUT_MS: Final = 5_000
_QUERY_HEADER: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_APPLICATION_IDS: Final = {"client": 0x52535443, "node": 0x5253544E}
"""Written into a file's header, "RSTC" or "RSTN": a client's file is never opened as a node's, nor anybody else's as
ours."""


Column = bytes | str | int | float | None
"""What SQLite can hold."""


class Database:
    """A connection with `synchronous=FULL`: when a transaction returns, it is on disk (SPEC 1.3)."""

    def __init__(self, path: Path, *, schema: str, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.path = path
        self._depth = 0
        with _translated(path):
            self._connection = _connect(path, busy_timeout_ms)
            try:
                self._refuse_strangers(schema)
                # One by one: of several statements in one string, those after the first that gives a row are not run.
                for pragma, value in (("journal_mode", "wal"), ("synchronous", "full"), ("foreign_keys", "on")):
                    self._connection.pragma(pragma, value)
                self._migrate(schema)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with _translated(self.path):
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; a transaction inside a transaction is part of the outer one."""
        if self._depth:
            yield
            return
        self.begin()
        try:
            yield
        except BaseException:
            self.roll_back()
            raise
        self.commit()

    def begin(self) -> None:
        with _translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        self._depth = 1

    def commit(self) -> None:
        """On disk when it returns; when it raises, nothing of the transaction was kept."""
        try:
            self._check_alive()
            self._depth = 0
            with _translated(self.path):
                self._connection.execute("COMMIT")
        except BaseException:
            self.roll_back()
            raise

    def roll_back(self) -> None:
        self._depth = 0
        if self._connection.in_transaction:
            with _translated(self.path):
                self._connection.execute("ROLLBACK")

    def run(self, sql: str, **values: Column) -> list[tuple[Any, ...]]:
        """Every row of one statement. Tables are STRICT, so a column's declared type is the type of its values."""
        self._check_alive()
        with _translated(self.path):
            return list(self._connection.execute(sql, values))

    def rows(self, sql: str, *values: Column) -> list[tuple[Any, ...]]:
        """The same with the values in order, for statements on the hot path."""
        self._check_alive()
        with _translated(self.path):
            return list(self._connection.execute(sql, values))

    def total_changes(self) -> int:
        """Rows written since the file was opened: tells whether an operation wrote anything."""
        return self._connection.total_changes()

    def last_insert(self) -> int:
        return self._connection.last_insert_rowid()

    def _check_alive(self) -> None:
        """SQLite rolls back by itself when the disk fails: whoever caught that failure must not go on half-way."""
        if self._depth and not self._connection.in_transaction:
            raise StoreUnusable(f"{self.path.name}: the transaction failed before; nothing of it was kept")

    def _refuse_strangers(self, schema: str) -> None:
        """A database that is not ours, or not of this kind, is left as it is."""
        [(tables,)] = self._connection.execute("SELECT count(*) FROM sqlite_schema")
        if tables and self._connection.pragma("application_id") != _APPLICATION_IDS[schema]:
            raise StoreUnusable(f"{self.path.name} is a database, but no {schema}'s file; open another file")

    def _migrate(self, schema: str) -> None:
        steps = sorted(
            (
                step
                for step in files(__package__).joinpath("migrations", schema).iterdir()
                if step.name.endswith(".sql")
            ),
            key=lambda step: step.name,
        )
        with self.transaction():
            at = self._connection.pragma("user_version")
            if at > len(steps):
                raise StoreUnusable(
                    f"{self.path.name} has schema {at}, this version of Restante knows up to {len(steps)}: "
                    "upgrade Restante, or open another file"
                )
            for step in steps[at:]:
                self._connection.execute(step.read_text(encoding="utf-8"))
            self._connection.pragma("application_id", _APPLICATION_IDS[schema])
            self._connection.pragma("user_version", len(steps))


def load_queries(name: str) -> Mapping[str, str]:
    """The named statements of one commented SQL file."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    _, *parts = _QUERY_HEADER.split(text)
    return dict(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))


def _connect(path: Path, busy_timeout_ms: int) -> apsw.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Created by us first, so that no other user can read it even for a moment.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(busy_timeout_ms)
    return connection


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's and the file system's failures, said so that a person knows what to do."""
    try:
        yield
    except (apsw.FullError, apsw.IOError) as error:
        raise StoreUnusable(f"{path.name}: the disk is full or failing ({error}); free space and try again") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreUnusable(f"{path.name} is still locked by another process; nothing was changed") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreUnusable(f"{path.name} is damaged or no database ({error}); restore it from a backup") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, OSError) as error:
        raise StoreUnusable(f"{path.name} cannot be opened for writing: {error}") from error
