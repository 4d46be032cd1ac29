"""Integrity checks of a node's file: whole as a file, every blob with its hash, counts that are right (SPEC 6.3).

They report what is wrong and repair nothing: a running node finds damage itself, never serves it, and fetches copies of
the mesh again. A blob is named by its number, which tells of no inbox. Each statement reads its own snapshot, so the
node may run meanwhile.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from restante.core.mailbox import is_intact
from restante.model.errors import StoreUnusable
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.integrity import Check, describe_gap, describe_structure

BLOBS_AT_ONCE: Final = 256  # up to 256 KiB each

_SQL: Final = load_queries("file/node_integrity")


def check_node_file(database: Database) -> list[Check]:
    """Run every check. Damage found by one does not hide what the others find."""
    return [
        Check(name=name, findings=tuple(finding for part in parts for finding in _findings(database, part)))
        for name, parts in CHECKS.items()
    ]


def _findings(database: Database, part: Callable[[Database], Iterator[str]]) -> Iterator[str]:
    try:
        yield from part(database)
    except StoreUnusable as damage:
        yield f"could not be checked: {damage}"


def _structure(database: Database) -> Iterator[str]:
    yield from filter(None, map(describe_structure, database.run("PRAGMA integrity_check(100)")))


def _mailbox_blobs(database: Database) -> Iterator[str]:
    return _damaged(database, "mailbox_blobs", "blob {} of a mailbox differs from its hash: it is not served")


def _mesh_blobs(database: Database) -> Iterator[str]:
    return _damaged(database, "mesh_blobs", "blob {} of the mesh differs from its hash: it is not served")


def _damaged(database: Database, query: str, sentence: str) -> Iterator[str]:
    after, rows = 0, list[tuple[Any, ...]]()
    while after == 0 or len(rows) == BLOBS_AT_ONCE:
        rows = database.rows(_SQL[query], after, BLOBS_AT_ONCE)
        for number, key, payload_hash, envelope in rows:
            after = number
            if not is_intact(envelope, inbox_key=key, payload_hash=payload_hash):
                yield sentence.format(number)
        if not rows:
            return


def _records(database: Database) -> Iterator[str]:
    for record_hash, record in database.rows(_SQL["records"]):
        if hashlib.sha256(record).digest() != record_hash:
            yield "a prekey record differs from its hash"


def _mailbox_totals(database: Database) -> Iterator[str]:
    for blobs, size, counted, counted_size in database.rows(_SQL["mailbox_totals"]):
        yield f"a mailbox counts {blobs} blobs and {size} bytes, but there are {counted} blobs and {counted_size} bytes"


def _mailbox_index(database: Database) -> Iterator[str]:
    for (finding,) in database.rows(_SQL["mailbox_index"]):
        yield str(finding)


def _mesh_totals(database: Database) -> Iterator[str]:
    for blobs, size, deleted, *counted in database.rows(_SQL["mesh_totals"]):
        yield (
            f"a key of the mesh counts {blobs} blobs, {size} bytes and {deleted} deleted ones, but there are"
            f" {counted[0]} blobs, {counted[1]} bytes and {counted[2]} deleted ones"
        )


def _gaps(database: Database) -> Iterator[str]:
    yield from map(describe_gap, database.rows(_SQL["gaps"]))


CHECKS: Final[dict[str, tuple[Callable[[Database], Iterator[str]], ...]]] = {
    "the file is whole": (_structure,),
    "each blob has its hash": (_mailbox_blobs, _mesh_blobs, _records),
    "totals equal a recount": (_mailbox_totals, _mailbox_index, _mesh_totals),
    "the journal's numbers have no gaps": (_gaps,),
}
