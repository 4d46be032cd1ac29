"""What a node process notes in its file besides blobs: the delay of reaping, and how often it refused requests."""

from collections.abc import Mapping
from typing import Final

from restante.model.error_codes import Code
from restante.model.journal import JournalKind
from restante.policy.reaping import reap_not_before_ms
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.wire.journal_schema import MAX_ATTEMPT

_SQL: Final = load_queries("mailbox/store")
_TIME_BYTES: Final = 8


def delay_reaping(database: Database, *, now_ms: int) -> int:
    """Return when a node that starts now may first reap (SPEC 6.10), and keep it for the next start.

    Call it before anything is written to the journal: the last event tells how far the clock has moved.
    """
    with database.transaction():
        last = database.run(_SQL["last_event_at"])
        kept = database.run(_SQL["reap_not_before"])
        not_before_ms = reap_not_before_ms(
            now_ms=now_ms,
            last_event_at_ms=last[0][0] if last else None,
            earlier_ms=int.from_bytes(kept[0][0], "big") if kept else 0,
        )
        database.run(_SQL["keep_reap_not_before"], value=not_before_ms.to_bytes(_TIME_BYTES, "big"))
    return not_before_ms


def journal_refusals(journal: Journal, refusals: Mapping[Code, int], *, now_ms: int) -> None:
    """Append one event for each code, with the number of refusals since the last one as its `attempt` (SPEC 13.1)."""
    for code, count in sorted(refusals.items()):
        journal.append(JournalKind.REFUSED, at_ms=now_ms, code=code, attempt=min(count, MAX_ATTEMPT))
