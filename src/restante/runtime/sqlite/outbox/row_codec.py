"""Outbox entries as rows and back. STRICT tables make the types of a row's values certain."""

from typing import Any, Final

from restante.model.error_codes import Code
from restante.model.ids import PayloadHash, SessionTag
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Confirmation, Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.pruning import attention_at_ms
from restante.runtime.sqlite.file.statement_batching import Column
from restante.runtime.sqlite.outbox.new_entry import NewEntry

# Looked up, not called: calling an Enum costs ten times as much, and every step reads five.
_ROUTES: Final = {route.value: route for route in Route}
_KINDS: Final = {kind.value: kind for kind in Kind}
_PRIORITIES: Final = {priority.value: priority for priority in Priority}
_STATES: Final = {state.value: state for state in State}
_CONFIRMATIONS: Final = {confirmation.value: confirmation for confirmation in Confirmation}

_NO_LEASE: Final = (None, None)
# By these names in what every message passes: on Python 3.11 a member takes ten times as long to read from its class.
_SENDING: Final = State.SENDING
_SENT: Final = State.SENT
NOT_READ: Final = b""
"""A body that was not loaded: state changes do not need it."""


def entry_of(row: tuple[Any, ...], body: tuple[bytes, bytes] = (NOT_READ, NOT_READ)) -> OutboxEntry:
    """The entry of a row of `load_entry` or `list_entries`."""
    (insertion, message_id, _, _, route, lane, kind, priority, created_at_ms, ttl_s, queued_at_ms, expires_at_ms,
     next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error, first_attempt_at_ms,
     last_attempt_at_ms, first_buried_at_ms, was_sent, reencrypted, confirmation) = row  # fmt: skip
    return OutboxEntry.filled(
        {
            "message_id": message_id,
            "route": _ROUTES[route],
            "lane": lane,
            "kind": _KINDS[kind],
            "payload": body[0],
            "sealed_plaintext": body[1],
            "priority": _PRIORITIES[priority],
            "created_at_ms": created_at_ms,
            "queued_at_ms": queued_at_ms,
            "ttl_s": ttl_s,
            "expires_at_ms": expires_at_ms,
            "next_attempt_at_ms": next_attempt_at_ms,
            "insertion": insertion,
            "attempts": attempts,
            "state": _STATES[state],
            "lease": None if lease_owner is None else Lease(owner=lease_owner, until_ms=lease_until_ms),
            "last_error": None if last_error is None else Code(last_error),
            "first_attempt_at_ms": first_attempt_at_ms,
            "last_attempt_at_ms": last_attempt_at_ms,
            "first_buried_at_ms": first_buried_at_ms,
            "was_sent": was_sent == 1,
            "reencrypted": reencrypted == 1,
            "confirmation": _CONFIRMATIONS[confirmation],
        }
    )


def arrival_of(
    entry: OutboxEntry,
    limits: OutboxLimits,
    *,
    session_tag: SessionTag | None = None,
    sequence: int | None = None,
    sealed_hash: PayloadHash | None = None,
) -> NewEntry:
    """A new message as it is accepted."""
    return (
        entry.message_id,
        len(entry.payload),
        entry.route,
        entry.lane,
        entry.kind,
        entry.priority,
        entry.created_at_ms,
        entry.ttl_s,
        entry.queued_at_ms,
        entry.expires_at_ms,
        entry.next_attempt_at_ms,
        attention_at_ms(limits, entry),
        session_tag,
        sequence,
        sealed_hash,
        entry.payload,
        entry.sealed_plaintext,
    )


def lasting_columns(entry: OutboxEntry, limits: OutboxLimits) -> tuple[Column, ...]:
    """What stays as it is from one queueing to the next."""
    return (
        entry.route,
        entry.lane,
        entry.kind,
        entry.priority,
        entry.created_at_ms,
        entry.ttl_s,
        entry.queued_at_ms,
        entry.expires_at_ms,
        entry.first_buried_at_ms,
        attention_at_ms(limits, entry),
    )


def state_columns(entry: OutboxEntry, is_behind: bool, now_ms: int) -> tuple[Column, ...]:
    """What a step may change, with the column the indexes choose by."""
    owner, until_ms = entry.lease or _NO_LEASE
    return (
        entry.next_attempt_at_ms,
        entry.attempts,
        entry.state,
        owner,
        until_ms,
        entry.last_error,
        entry.first_attempt_at_ms,
        entry.last_attempt_at_ms,
        entry.was_sent,
        entry.reencrypted,
        entry.confirmation,
        None if is_behind or entry.state is _SENDING else _turn(entry, now_ms),
    )


def _turn(entry: OutboxEntry, now_ms: int) -> int | None:
    if entry.state is _SENT and entry.next_attempt_at_ms >= entry.expires_at_ms:
        return None  # it ends before it would have to be stored again
    return int(entry.next_attempt_at_ms <= now_ms)
