"""Integrity checks of a client's file: whole as a file, and with tables that agree with each other (SPEC 1.4).

They report what is wrong and repair nothing. Checks are independent: damage found by one does not hide what the others
find.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.model.ids import MESSAGE_ID_BYTES, MessageId, show_message_id
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.states import Confirmation, DeadCategory, DeadReason, Route, State
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.envelope import hash_sealed_bytes

_SQL: Final = load_queries("file/integrity")
_STATE_AFTER: Final = json.dumps({kind.value: state.value for kind, state in STATE_AFTER.items()})
_WORDS: Final[dict[str, frozenset[object]]] = {
    "route": frozenset(Route),
    "kind": frozenset(Kind),
    "priority": frozenset(Priority),
    "code": frozenset(Code),
    "confirmation": frozenset(Confirmation),
    "reason": frozenset(DeadReason),
    "category": frozenset(DeadCategory),
    "state": frozenset(State),
    "event": frozenset(JournalKind),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check, with a sentence for each violation."""

    name: str
    findings: tuple[str, ...]


Row = tuple[Any, ...]


def check_file(database: Database) -> list[Check]:
    """Run every check on one snapshot of the file."""
    with database.transaction():
        return [Check(name=name, findings=_findings(database, parts)) for name, parts in CHECKS.items()]


def _findings(database: Database, parts: Iterable[tuple[str, Callable[[Row], str | None]]]) -> tuple[str, ...]:
    found: list[str] = []
    for query, in_words in parts:
        values = {"state_after": _STATE_AFTER} if query == "states" else {}
        try:
            rows = database.run(_SQL[query], **values)
        except StoreUnusable as damage:
            found.append(f"could not be checked: {damage}")
            continue
        found += filter(None, map(in_words, rows))
    return tuple(found)


def _shown(value: object) -> str:
    """Show a message id. In a damaged file the column may hold anything."""
    if isinstance(value, bytes) and len(value) == MESSAGE_ID_BYTES:
        return show_message_id(MessageId(value))
    return f"with the unreadable id {value!r}"


def describe_structure(row: Row) -> str | None:
    return None if row[0] == "ok" else " ".join(str(row[0]).split())


def _reference(row: Row) -> str:
    table, number, target, _ = row
    return f"row {number} of table {table} points to a row of table {target} that is not there"


def _lane_total(row: Row) -> str:
    route, lane, entries, size, counted_entries, counted_size = row
    return (
        f"{route} lane {lane!r} counts {entries} messages and {size} bytes,"
        f" but there are {counted_entries} messages and {counted_size} bytes"
    )


def _lane_dead(row: Row) -> str:
    route, lane, dead, counted = row
    return f"{route} lane {lane!r} counts {dead} retriable dead letters, but there are {counted}"


def _lane_head(row: Row) -> str:
    route, lane, stored, counted = row
    return f"{route} lane {lane!r} begins at place {stored}, but its oldest unsent message is at {counted}"


def _stray_entry(row: Row) -> str:
    return f"the lane of message {_shown(row[0])} is not there"


def _missing_body(row: Row) -> str:
    return f"message {_shown(row[0])} {row[1]}, but its payload is not there"


def _cut_body(row: Row) -> str:
    message_id, found, accepted = row
    return f"message {_shown(message_id)} has a payload of {found} bytes, but was accepted with {accepted}"


def _changed_body(row: Row) -> str | None:
    message_id, payload, payload_hash = row
    if hash_sealed_bytes(payload) == payload_hash:
        return None
    return f"the payload of message {_shown(message_id)} differs from its hash in the journal"


def _stray_body(row: Row) -> str:
    return f"payload {row[0]} belongs to no message"


def _stray_progress(row: Row) -> str:
    return f"the file says how far message {_shown(row[0])} was sent to its chat, but the message is not there"


def describe_gap(row: Row) -> str:
    first, last = row
    return f"journal event {first} is missing" if first == last else f"journal events {first} to {last} are missing"


def _two_places(row: Row) -> str:
    return f"message {_shown(row[0])} is in two states at once"


def _state(row: Row) -> str:
    message_id, journaled, kept = row
    by_journal = f"the journal says {journaled}" if journaled else "the journal has no event of it"
    by_row = f"its row says {kept}" if kept else "it has no row"
    return f"message {_shown(message_id)}: {by_journal}, but {by_row}"


def _unproved_end(row: Row) -> str:
    return f"message {_shown(row[0])} counts as delivered or evicted, but no journal event says so"


def _word(row: Row) -> str | None:
    name, value = row
    return None if value in _WORDS[name] else f"{name} {value!r} is unknown to this version"


CHECKS: Final[dict[str, tuple[tuple[str, Callable[[Row], str | None]], ...]]] = {
    "the file is whole": (("structure", describe_structure),),
    "rows that belong together are there": (
        ("references", _reference),
        ("stray_progress", _stray_progress),
        ("stray_entries", _stray_entry),
    ),
    "totals equal a recount": (
        ("lane_totals", _lane_total),
        ("lane_dead", _lane_dead),
        ("lane_heads", _lane_head),
    ),
    "each message has its whole payload": (
        ("missing_bodies", _missing_body),
        ("cut_bodies", _cut_body),
        ("payload_hashes", _changed_body),
        ("stray_bodies", _stray_body),
    ),
    "the journal's numbers have no gaps": (("gaps", describe_gap),),
    "each message is in the state its journal events say": (
        ("states", _state),
        ("two_places", _two_places),
        ("ended", _unproved_end),
    ),
    "all values are known": (("words", _word),),
}
