"""The fleet's request to a storage node for a round of copies, as one row of the node's file (SPEC 13.6).

`restante fleet apply` writes the row beside a running node, which reads it once in each ping interval. Its value is the
time of the newest report whose proposals were applied. It stays, so that applying them again changes nothing.
"""

import json
from collections.abc import Iterable
from typing import Final

from restante.model.ids import PayloadHash
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("mesh/repair_requests")
_TIME_BYTES: Final = 8


def known_hashes(database: Database, hashes: Iterable[PayloadHash]) -> frozenset[PayloadHash]:
    """Return which of these blobs the node holds, or knows as deleted by their owner."""
    listed = json.dumps([each.hex() for each in hashes])
    return frozenset(PayloadHash(each) for (each,) in database.run(_SQL["known"], hashes=listed))


def requested_as_of_ms(database: Database) -> int | None:
    """Return the time of the newest report whose proposals were applied; None if there was none."""
    rows = database.run(_SQL["requested"])
    return int.from_bytes(rows[0][0], "big") if rows else None


def request_round(database: Database, *, as_of_ms: int) -> None:
    """Ask for a round because of the proposals of this report."""
    database.run(_SQL["request"], value=as_of_ms.to_bytes(_TIME_BYTES, "big"))
