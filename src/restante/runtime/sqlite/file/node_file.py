"""The owner of a node's database file."""

from pathlib import Path
from typing import Final, Self

from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.client_file import OwnedFile, open_database
from restante.runtime.sqlite.file.database import BUSY_TIMEOUT_MS, Database
from restante.runtime.sqlite.file.space_reserve import SpaceReserve
from restante.runtime.sqlite.file.wal_checkpointer import Checkpoints

RESERVE_BYTES: Final = 32 * 1024 * 1024
"""Twice what a node's write-ahead log takes until its checkpoint, which then copies its pages into the file."""


class NodeFile(OwnedFile):
    """A node's file: mailboxes and their journal. A thread of its own moves the write-ahead log into the file."""

    def __init__(self, database: Database, *, entropy: Entropy, reserve: SpaceReserve | None = None) -> None:
        reserve = reserve or SpaceReserve(database.path, size_bytes=RESERVE_BYTES)
        super().__init__(database, entropy=entropy, reserve=reserve)
        self._checkpoints = Checkpoints(database, schema="node")

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        entropy: Entropy,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        reserve: SpaceReserve | None = None,
    ) -> Self:
        """Open the file; create it if it does not exist."""
        reserve = reserve or SpaceReserve(path, size_bytes=RESERVE_BYTES)
        database = open_database(path, schema="node", reserve=reserve, busy_timeout_ms=busy_timeout_ms)
        return cls(database, entropy=entropy, reserve=reserve)

    def close(self) -> None:
        self.commits.close()
        self._checkpoints.close()
        self.database.close()
