"""The owner of a node's database file."""

from pathlib import Path
from typing import Self

from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.client_file import OwnedFile
from restante.runtime.sqlite.file.database import BUSY_TIMEOUT_MS, Database
from restante.runtime.sqlite.file.wal_checkpointer import Checkpoints


class NodeFile(OwnedFile):
    """A node's file: mailboxes and their journal. A thread of its own moves the write-ahead log into the file."""

    def __init__(self, database: Database, *, entropy: Entropy) -> None:
        super().__init__(database, entropy=entropy)
        self._checkpoints = Checkpoints(database, schema="node")

    @classmethod
    def open(cls, path: Path, *, entropy: Entropy, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> Self:
        """Open the file; create it if it does not exist."""
        return cls(Database(path, schema="node", busy_timeout_ms=busy_timeout_ms), entropy=entropy)

    def close(self) -> None:
        self.commits.close()
        self._checkpoints.close()
        self.database.close()
