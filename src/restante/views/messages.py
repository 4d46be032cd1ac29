"""Messages of the outbox: in flight, dead or delivered, as JSON, as rows of a table and as lists of fields."""

import base64
from collections.abc import Iterator
from typing import Any, Final

from restante.model.ids import MessageId, show_message_id
from restante.model.outbox_entry import EndedEntry, OutboxEntry, StoredDeadLetter, WaitingEntry
from restante.model.states import Confirmation, Route, State
from restante.policy.settings import Settings
from restante.views import formatting
from restante.views.message_timeline import reason_text

SHORT_ID: Final = 8  # characters; the commands accept no fewer
LANE_CELLS: Final = 17

CONFIRMED: Final = {
    Confirmation.NONE: "nothing yet",
    Confirmation.STORED: "a node holds it",
    Confirmation.RECEIVED: "the recipient has it",
    Confirmation.READ: "read",
}


def short_id(message_id: MessageId) -> str:
    return show_message_id(message_id)[:SHORT_ID]


def lane(text: str) -> str:
    """Return a lane's name, shortened to the width of its column."""
    shown = formatting.printable(text)
    return shown if len(shown) <= LANE_CELLS else f"{shown[: LANE_CELLS - 1]}…"


def _common_data(entry: OutboxEntry) -> dict[str, Any]:
    return {
        "message_id": show_message_id(entry.message_id),
        "state": entry.state.value,
        "route": entry.route.value,
        "lane": entry.lane,
        "kind": entry.kind.value,
        "priority": entry.priority.name.lower(),
    }


def entry_data(waiting: WaitingEntry) -> dict[str, Any]:
    entry = waiting.entry
    return {
        **_common_data(entry),
        "size_bytes": waiting.size_bytes,
        "attempts": entry.attempts,
        "created_at_ms": entry.created_at_ms,
        "queued_at_ms": entry.queued_at_ms,
        "next_attempt_at_ms": entry.next_attempt_at_ms,
        "blocked": waiting.is_blocked,
        "expires_at_ms": entry.expires_at_ms,
        "last_error": entry.last_error,
        "first_attempt_at_ms": entry.first_attempt_at_ms,
        "last_attempt_at_ms": entry.last_attempt_at_ms,
        "lease_owner": None if entry.lease is None else entry.lease.owner,
        "lease_until_ms": None if entry.lease is None else entry.lease.until_ms,
        "confirmation": entry.confirmation.name.lower(),
    }


def dead_letter_data(letter: StoredDeadLetter) -> dict[str, Any]:
    entry = letter.entry
    return {
        **_common_data(entry),
        "size_bytes": letter.size_bytes,
        "reason": letter.reason.value,
        "code": letter.code,
        "category": letter.category.value,
        "attempts": entry.attempts,
        "created_at_ms": entry.created_at_ms,
        "first_attempt_at_ms": entry.first_attempt_at_ms,
        "last_attempt_at_ms": entry.last_attempt_at_ms,
        "moved_at_ms": letter.moved_at_ms,
        "kept_until_ms": letter.expires_at_ms,
        "next_retry_at_ms": letter.retry_at_ms,
        "ttl_s": entry.ttl_s,
        "message_expires_at_ms": entry.expires_at_ms,
        "confirmation": entry.confirmation.name.lower(),
    }


def delivered_data(delivered: EndedEntry) -> dict[str, Any]:
    return {
        "message_id": show_message_id(delivered.message_id),
        "state": delivered.state.value,
        "kind": delivered.kind.value,
        "priority": delivered.priority.name.lower(),
        "confirmation": delivered.confirmation.name.lower(),
        "ended_at_ms": delivered.ended_at_ms,
    }


def base64_of(payload: bytes | None) -> str | None:
    return None if payload is None else base64.b64encode(payload).decode("ascii")


def next_step(waiting: WaitingEntry, now_ms: int) -> str:
    """Say in one or two words what an entry waits for."""
    entry = waiting.entry
    if entry.state is State.SENDING:
        return "lease expired" if entry.lease is None or entry.lease.until_ms <= now_ms else "leased"
    if waiting.is_blocked:
        return "blocked"
    if _waits_for_receipt(waiting):
        return "receipt"
    return ahead(entry.next_attempt_at_ms, now_ms)


def ahead(at_ms: int, now_ms: int) -> str:
    """Format the time until a moment; `now` if it is past."""
    return "now" if at_ms <= now_ms else formatting.roughly(at_ms - now_ms)


def entry_row(waiting: WaitingEntry, now_ms: int) -> tuple[str, ...]:
    entry = waiting.entry
    return (
        short_id(entry.message_id),
        entry.state.value,
        entry.kind.value,
        str(entry.attempts),
        next_step(waiting, now_ms),
        ahead(entry.expires_at_ms, now_ms),
        entry.last_error or "",
        f"{entry.route.value} {formatting.printable(entry.lane)}",
    )


def dead_letter_row(letter: StoredDeadLetter, now_ms: int) -> tuple[str, ...]:
    return (
        short_id(letter.entry.message_id),
        letter.category.value,
        letter.code or "",
        str(letter.entry.attempts),
        formatting.away(letter.moved_at_ms, now_ms),
        ahead(letter.expires_at_ms, now_ms),
        "never" if letter.retry_at_ms is None else ahead(letter.retry_at_ms, now_ms),
        letter.reason.value.replace("_", " "),
        f"{letter.entry.route.value} {formatting.printable(letter.entry.lane)}",
    )


def entry_fields(waiting: WaitingEntry, settings: Settings, now_ms: int) -> Iterator[tuple[str, str]]:
    entry = waiting.entry
    schedule = settings.channel_retry if entry.route is Route.CHANNEL else settings.retry
    yield "state", entry.state.value
    yield from _common_fields(waiting.entry.route, entry.lane, entry.kind, entry.priority.name, waiting.size_bytes)
    yield "created", at(entry.created_at_ms, now_ms)
    yield "expires", at(entry.expires_at_ms, now_ms)
    yield "attempts", f"{entry.attempts} of {schedule.max_attempts}"
    if entry.lease is not None:
        yield "leased by", f"{formatting.printable(entry.lease.owner)} until {at(entry.lease.until_ms, now_ms)}"
    elif waiting.is_blocked:
        yield "next attempt", "after an earlier message of its lane"
    elif _waits_for_receipt(waiting):
        yield "next attempt", "none; it waits for the recipient's receipt"
    else:
        yield "next attempt", at(max(entry.next_attempt_at_ms, now_ms), now_ms)
    if entry.last_attempt_at_ms is not None:
        yield "last attempt", at(entry.last_attempt_at_ms, now_ms)
    if entry.last_error is not None:
        yield "last error", reason_text(entry.last_error)
    yield "confirmed", CONFIRMED[entry.confirmation]


def dead_letter_fields(letter: StoredDeadLetter, now_ms: int) -> Iterator[tuple[str, str]]:
    entry = letter.entry
    yield "state", entry.state.value
    yield "category", letter.category.value
    yield "reason", letter.reason.value.replace("_", " ")
    if letter.code is not None:
        yield "code", reason_text(letter.code)
    yield from _common_fields(entry.route, entry.lane, entry.kind, entry.priority.name, letter.size_bytes)
    if not letter.body_id:
        yield "payload", "deleted at expiry"
    yield "created", at(entry.created_at_ms, now_ms)
    yield "expires", at(entry.expires_at_ms, now_ms)
    yield "attempts", str(entry.attempts)
    if entry.first_attempt_at_ms is not None and entry.last_attempt_at_ms is not None:
        yield "first attempt", at(entry.first_attempt_at_ms, now_ms)
        yield "last attempt", at(entry.last_attempt_at_ms, now_ms)
    yield "failed", at(letter.moved_at_ms, now_ms)
    yield "kept until", at(letter.expires_at_ms, now_ms)
    yield "next retry", "not automatic" if letter.retry_at_ms is None else at(letter.retry_at_ms, now_ms)


def delivered_fields(delivered: EndedEntry, now_ms: int) -> Iterator[tuple[str, str]]:
    yield "state", delivered.state.value
    yield "kind", f"{delivered.kind.value}, {delivered.priority.name.lower()} priority"
    yield "ended", at(delivered.ended_at_ms, now_ms)
    yield "confirmed", CONFIRMED[delivered.confirmation]


def at(at_ms: int, now_ms: int) -> str:
    return f"{formatting.moment(at_ms)} UTC ({formatting.away(at_ms, now_ms)})"


def hex_of(payload: bytes | None) -> str:
    return "The payload was deleted." if payload is None else f"Payload, sealed\n{payload.hex(' ', -2)}"


def _waits_for_receipt(waiting: WaitingEntry) -> bool:
    """Return whether the entry was sent and expires before it would be sent again (SPEC 10.4)."""
    entry = waiting.entry
    return entry.state is State.SENT and entry.next_attempt_at_ms >= entry.expires_at_ms


def _common_fields(route: str, lane_name: str, kind: str, priority: str, size_bytes: int) -> Iterator[tuple[str, str]]:
    yield "to", f"{route} {formatting.printable(lane_name)}"
    yield "kind", f"{kind}, {priority.lower()} priority"
    yield "size", f"{size_bytes:,} bytes"
