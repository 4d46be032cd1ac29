"""Outbox entries as rows and back. Tables are STRICT, so that a column's declared type is the type of its values."""

from typing import Any, Final, NamedTuple

from restante.model.error_codes import Code
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Confirmation, Route, State
from restante.runtime.sqlite.file.statement_batching import Column

# Dictionaries instead of calls: calling an Enum takes ten times as long, and every row has five.
_ROUTES: Final = {route.value: route for route in Route}
_KINDS: Final = {kind.value: kind for kind in Kind}
_PRIORITIES: Final = {priority.value: priority for priority in Priority}
STATES: Final = {state.value: state for state in State}
_CONFIRMATIONS: Final = {confirmation.value: confirmation for confirmation in Confirmation}
_NO_LEASE: Final = (None, None)


class EntryRow(NamedTuple):
    """The columns of an entry as statements select them, without its body."""

    queue_number: int
    message_id: MessageId
    lane_id: int
    place: int
    body_id: int
    size_bytes: int
    route: str
    lane: str
    kind: str
    priority: int
    created_at_ms: int
    ttl_s: int
    queued_at_ms: int
    expires_at_ms: int
    first_dead_at_ms: int | None
    next_attempt_at_ms: int
    attempts: int
    failures: int
    state: str
    lease_owner: str | None
    lease_until_ms: int | None
    last_error: str | None
    first_attempt_at_ms: int | None
    last_attempt_at_ms: int | None
    times_stored: int
    has_failed_to_encrypt: int
    confirmation: int


_OF_LANE: Final = {"route": "lane.route", "lane": "lane.name"}
ENTRY_COLUMNS: Final = ", ".join(_OF_LANE.get(name, f"outbox.{name}") for name in EntryRow._fields)
"""For `{entry}` in statements over `outbox JOIN lane`."""
WIDTH: Final = len(EntryRow._fields)


def entry_of(row: EntryRow, payload: bytes = b"", sealed_plaintext: bytes = b"") -> OutboxEntry:
    """Return the entry of a row. Without a body both byte strings are empty: changes of state do not need them."""
    return OutboxEntry(
        message_id=MessageId(row.message_id),
        route=_ROUTES[row.route],
        lane=row.lane,
        kind=_KINDS[row.kind],
        payload=payload,
        sealed_plaintext=sealed_plaintext,
        priority=_PRIORITIES[row.priority],
        created_at_ms=row.created_at_ms,
        queued_at_ms=row.queued_at_ms,
        ttl_s=row.ttl_s,
        expires_at_ms=row.expires_at_ms,
        next_attempt_at_ms=row.next_attempt_at_ms,
        queue_number=row.queue_number,
        place=row.place,
        attempts=row.attempts,
        failures=row.failures,
        state=STATES[row.state],
        lease=_lease_of(row.lease_owner, row.lease_until_ms),
        last_error=None if row.last_error is None else Code(row.last_error),
        first_attempt_at_ms=row.first_attempt_at_ms,
        last_attempt_at_ms=row.last_attempt_at_ms,
        first_dead_at_ms=row.first_dead_at_ms,
        times_stored=row.times_stored,
        has_failed_to_encrypt=row.has_failed_to_encrypt == 1,
        confirmation=_CONFIRMATIONS[row.confirmation],
    )


def _lease_of(owner: str | None, until_ms: int | None) -> Lease | None:
    return None if owner is None or until_ms is None else Lease(owner=owner, until_ms=until_ms)


def row_of(values: tuple[Any, ...]) -> EntryRow:
    return EntryRow._make(values[:WIDTH])


def state_columns(entry: OutboxEntry) -> tuple[Column, ...]:
    """Return what a step may change, in the order of `store_state`."""
    owner, until_ms = entry.lease or _NO_LEASE
    return (
        entry.next_attempt_at_ms,
        entry.attempts,
        entry.failures,
        entry.state,
        owner,
        until_ms,
        entry.last_error,
        entry.first_attempt_at_ms,
        entry.last_attempt_at_ms,
        entry.times_stored,
        entry.has_failed_to_encrypt,
        entry.confirmation,
    )
