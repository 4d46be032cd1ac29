"""Open a client's or a node's file for its journal."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from restante.cli.client.database_file import require_file
from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy


@contextlib.contextmanager
def journal_of(file: Path | None) -> Iterator[tuple[str, Database, Journal]]:
    """Yield the kind of the file (client or node), the database and its journal. Raise for any other file."""
    path = require_file(file)
    kind = _kind_of(path)
    database = Database(path, schema=kind)
    try:
        yield kind, database, Journal(database, SystemEntropy())
    finally:
        database.close()


def _kind_of(path: Path) -> str:
    """Return which kind of file it is. It is opened read-only."""
    refusal: StoreUnusable | None = None
    for kind in ("client", "node"):
        try:
            Database(path, schema=kind, read_only=True).close()
        except StoreUnusable as problem:
            refusal = refusal or problem
        else:
            return kind
    raise StoreUnusable(f"{path.name} is not the file of a client or node of this version: {refusal}")
