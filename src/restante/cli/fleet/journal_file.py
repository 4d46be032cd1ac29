"""A client's or a node's file, opened for its journal: which of the two it is, the file itself says."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from restante.cli.client.database_file import path_of
from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy


@contextlib.contextmanager
def journal_of(file: Path | None) -> Iterator[tuple[str, Database, Journal]]:
    """The word for the kind of file, the file and its journal. No file is made here, and no stranger's is touched."""
    path = path_of(file)
    kind = _kind_of(path)
    database = Database(path, schema=kind)
    try:
        yield kind, database, Journal(database, SystemEntropy())
    finally:
        database.close()


def _kind_of(path: Path) -> str:
    """By looking only; a file that is neither is refused with what is wrong with it as a client's."""
    refusal: StoreUnusable | None = None
    for kind in ("client", "node"):
        try:
            Database(path, schema=kind, read_only=True).close()
        except StoreUnusable as problem:
            refusal = refusal or problem
        else:
            return kind
    raise StoreUnusable(f"{path.name} is no client's and no node's file of this version: {refusal}")
