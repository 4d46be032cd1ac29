"""The peers of the outbox, each as its own documentation uses it, all held to `synchronous=FULL` in WAL.

A peer that is not installed is left out. What the others promise differs (none keeps a journal, leases or receipts);
what is compared is how many 1 KiB messages a second survive a power cut.
"""

import importlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

PAYLOAD: Final = b"p" * 1_024
INSTALL: Final = "pip install huey persist-queue litequeue"
_SYNCHRONOUS_FULL: Final = 2


class Peer(Protocol):
    """One contender: a durable enqueue, and the way back out by which it forgets the message."""

    def enqueue(self) -> None: ...

    def dequeue(self) -> None: ...


class BareSqlite:
    """The limit of one commit a message: one row, one COMMIT, nothing else."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = wal")
        _hold_to_full(self._connection)
        self._connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")

    def enqueue(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO message (payload) VALUES (?)", (PAYLOAD,))
        self._connection.execute("COMMIT")

    def dequeue(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        [(first, _)] = self._connection.execute("SELECT id, payload FROM message ORDER BY id LIMIT 1").fetchall()
        self._connection.execute("DELETE FROM message WHERE id = ?", (first,))
        self._connection.execute("COMMIT")


class Huey:
    def __init__(self, folder: Path) -> None:
        storage: Any = importlib.import_module("huey.storage")
        self._storage = storage.SqliteStorage(filename=str(folder / "huey.db"), fsync=True)
        _hold_to_full(self._storage.conn)

    def enqueue(self) -> None:
        self._storage.enqueue(PAYLOAD)

    def dequeue(self) -> None:
        assert self._storage.dequeue() is not None


class PersistQueue:
    def __init__(self, folder: Path) -> None:
        persistqueue: Any = importlib.import_module("persistqueue")
        self._queue = persistqueue.SQLiteQueue(str(folder / "persist-queue"), auto_commit=True)
        _hold_to_full(self._queue._putter)

    def enqueue(self) -> None:
        self._queue.put(PAYLOAD)

    def dequeue(self) -> None:
        self._queue.get(block=False)


class LiteQueue:
    def __init__(self, folder: Path) -> None:
        litequeue: Any = importlib.import_module("litequeue")
        self._queue = litequeue.LiteQueue(folder / "litequeue.db")
        _hold_to_full(self._queue.conn)
        self._text = PAYLOAD.decode()

    def enqueue(self) -> None:
        self._queue.put(self._text)

    def dequeue(self) -> None:
        self._queue.done(self._queue.pop().message_id)


_INSTALLABLE: Final[dict[str, Callable[[Path], Peer]]] = {
    "huey": Huey,
    "persist-queue": PersistQueue,
    "litequeue": LiteQueue,
}


def open_peers(folder: Path) -> Iterator[tuple[str, Peer]]:
    """Bare sqlite3, then every peer that is installed; says how to install the others."""
    yield "bare sqlite3", BareSqlite(folder)
    for name, peer in _INSTALLABLE.items():
        try:
            yield name, peer(folder)
        except ModuleNotFoundError:
            print(f"  {name} is not installed and is left out; to compare with it: {INSTALL}")


def _hold_to_full(connection: sqlite3.Connection) -> None:
    """Ask for it, then look whether it is so: a peer that syncs less would win by not doing the work."""
    connection.execute("PRAGMA synchronous = full")
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == _SYNCHRONOUS_FULL
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
