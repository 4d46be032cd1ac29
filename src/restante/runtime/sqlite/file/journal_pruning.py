"""Delete old journal events: 7 days after they were shipped, or after 30 days where nothing is shipped (SPEC 13.1).

When events were shipped is stored by the hour. Events are deleted from the oldest on, never the newest one: the next
number follows it. What was not shipped stays where anything ever was shipped.
"""

import json
from typing import Final

from restante.policy.shipping import HOUR_MS, UNSHIPPED_RETENTION_MS, prunable_hour
from restante.runtime.sqlite.file.database import Database, load_queries

EVENTS_PER_PRUNE: Final = 10_000
"""How many events one transaction deletes at most, so that senders wait only briefly."""
HOURS_KEY: Final = "shipping_hours"
PRUNED_KEY: Final = "pruned_through"

_SQL: Final = load_queries("file/journal")


def note_shipped(database: Database, through: int, *, at_ms: int) -> None:
    """Write down, inside a transaction, that events up to `through` were shipped by the end of this hour."""
    hours = _shipping_hours(database)
    hours[at_ms // HOUR_MS] = through
    _set_hours(database, hours)


def prune(database: Database, *, now_ms: int, is_shipped: bool) -> int:
    """Delete some of the events that are old enough, inside a transaction, and return how many.

    `is_shipped` says whether a segment store is configured.
    """
    [(first,)] = database.rows(_SQL["first_number"])
    [(last,)] = database.rows(_SQL["last_number"])
    hours = _shipping_hours(database)
    if hours or is_shipped:
        done = [hour for hour in hours if hour <= prunable_hour(now_ms=now_ms)]
        through = max((hours[hour] for hour in done), default=0)
    else:
        done = []
        [(old,)] = database.run(_SQL["older_than"], before_ms=now_ms - UNSHIPPED_RETENTION_MS)
        through = old or 0
    through = min(through, last - 1)
    upto = min(through, first + EVENTS_PER_PRUNE - 1)
    if upto < first or not first:
        return 0
    database.run(_SQL["prune"], through=upto)
    database.run(_SQL["set_meta"], key=PRUNED_KEY, value=str(upto).encode())
    if upto == through and len(done) > 1:
        _set_hours(database, {hour: number for hour, number in hours.items() if hour not in done[:-1]})
    return int(upto - first + 1)


def _shipping_hours(database: Database) -> dict[int, int]:
    rows = database.run(_SQL["get_meta"], key=HOURS_KEY)
    return {int(hour): through for hour, through in json.loads(rows[0][0]).items()} if rows else {}


def _set_hours(database: Database, hours: dict[int, int]) -> None:
    database.run(_SQL["set_meta"], key=HOURS_KEY, value=json.dumps(dict(sorted(hours.items()))).encode())
