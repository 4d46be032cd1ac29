"""Totals of a node's file, for its operator."""

from dataclasses import dataclass
from typing import Final

from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("mailbox/queries")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHoldings:
    """`expired` blobs are included in `blobs`; they are never served, and the next reap deletes them."""

    blobs: int
    total_bytes: int
    mailboxes: int
    expired: int
    oldest_stored_at_ms: int | None
    next_expiry_at_ms: int | None
    events: int
    unshipped_events: int


def read_holdings(database: Database, *, shipped_through: int, now_ms: int) -> NodeHoldings:
    """Read all numbers in one transaction."""
    with database.transaction():
        [(blobs, total_bytes, mailboxes)] = database.run(_SQL["held"])
        first_stored = database.run(_SQL["first_stored"])
        [(next_expiry,)] = database.run(_SQL["next_expiry"])
        [(expired,)] = database.run(_SQL["expired"], now_ms=now_ms)
        [(events,)] = database.run(_SQL["last_event"])
    return NodeHoldings(
        blobs=blobs,
        total_bytes=total_bytes,
        mailboxes=mailboxes,
        expired=expired,
        oldest_stored_at_ms=first_stored[0][0] if first_stored else None,
        next_expiry_at_ms=next_expiry,
        events=events,
        unshipped_events=events - shipped_through,
    )
