"""A fleet with a past: the journals of troubled_fleet, and before them events of days that retention deletes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from restante.model.ids import event_id
from restante.model.journal import JournalEvent, JournalKind
from restante.model.kinds import Kind
from support.fleet.journal_files import Journal, message, node_id, sealed
from support.fleet.troubled_fleet import DAY_MS, NOON_MS, RECIPIENT, SENDER, accept, troubled_fleet

DAYS = 120
TODAY = date(2026, 1, 8)
FIRST_DAY = "2025-09-10"
"""What retention leaves of `DAYS` days on `TODAY`."""
OLD_MS = NOON_MS - 130 * DAY_MS
OLD_DAY = "2025-08-28"
DELIVERED, EXPIRED, READ_LATER, LOST = 200, 201, 202, 203
TAG = b"s" * 16
LATE = 3
"""The number of an event of the sender that comes only after its day was deleted."""


def fleet_with_past() -> list[Journal]:
    """Sender, recipient and two nodes. The recipient's session goes on after the old days."""
    journals = troubled_fleet()
    for journal in journals:
        past = Journal(journal.writer)
        write_past(past)
        journal.rows = [*past.rows, *_renumbered(journal, len(past.rows))]
    for number in range(4):
        accept(journals[0], 300 + number, NOON_MS + 400)
        _arrive(journals[1], 300 + number, NOON_MS + 500 + number, sequence=3 + number)
    return journals


def write_past(journal: Journal) -> None:
    if journal.writer == SENDER:
        for number in (DELIVERED, EXPIRED, READ_LATER):
            details = {"message_kind": Kind.TEXT, "ttl_s": 86_400, "size_bytes": 512}
            journal.write(JournalKind.ACCEPTED, message(number), OLD_MS, payload_hash=sealed(number), **details)
            journal.write(JournalKind.ATTEMPTED, message(number), OLD_MS + 10, attempt=1)
            journal.write(JournalKind.GAP_SKIPPED, None, OLD_MS + 15, session_tag=b"x" * 16, sequence=1)
            journal.write(JournalKind.SENT, message(number), OLD_MS + 20)
        journal.write(JournalKind.DELIVERED, message(DELIVERED), OLD_MS + 40)
        journal.write(JournalKind.EXPIRED, message(EXPIRED), OLD_MS + DAY_MS, code="E010")
        journal.write(JournalKind.DELIVERED, message(READ_LATER), OLD_MS + DAY_MS)
    elif journal.writer == RECIPIENT:
        for number in range(3):
            _arrive(journal, DELIVERED + number, OLD_MS + 30, sequence=number)
    else:
        node = 1 if journal.writer[7] == 3 else 2
        journal.write(JournalKind.NODE_STARTED, None, OLD_MS, node=node_id(node))
        for number in (DELIVERED, EXPIRED):
            details = {"payload_hash": sealed(number), "size_bytes": 512, "ttl_s": 86_400}
            journal.write(JournalKind.STORED, None, OLD_MS + 25, **details)
        journal.write(JournalKind.DELETED, None, OLD_MS + 45, payload_hash=sealed(DELIVERED))


def _arrive(journal: Journal, number: int, at_ms: int, *, sequence: int) -> None:
    details = {"session_tag": TAG, "sequence": sequence, "payload_hash": sealed(number)}
    journal.write(JournalKind.ARRIVED, message(number), at_ms, code="new", **details)


def _renumbered(journal: Journal, by: int) -> Iterator[JournalEvent]:
    for number, row in enumerate(journal.rows, by + 1):
        yield replace(row, event_id=event_id(journal.writer, number))
