"""Outbox entries for tests, and the one way to hand them to an outbox."""

from typing import Any

from restante.model.ids import PayloadHash, SessionTag
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.runtime.sqlite.outbox.new_entry import new_entry_of
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.wire.envelope import hash_sealed_bytes
from support.fleet.journal_files import message
from support.sqlite.files import NOW_MS

DAY_MS = 86_400_000


def entry(number: int, **changes: Any) -> OutboxEntry:
    """A text to one relay that lives for a day and is due at once."""
    fields: dict[str, Any] = {
        "message_id": message(number),
        "route": Route.RELAY,
        "lane": "relay-1",
        "kind": Kind.TEXT,
        "payload": b"payload %d" % number,
        "sealed_plaintext": b"sealed %d" % number,
        "priority": Priority.NORMAL,
        "created_at_ms": NOW_MS,
        "queued_at_ms": NOW_MS,
        "ttl_s": 86_400,
        "expires_at_ms": NOW_MS + DAY_MS,
        "next_attempt_at_ms": NOW_MS,
    }
    return OutboxEntry(**(fields | changes))


def accept(outbox: SqliteOutbox, new: OutboxEntry, *, now_ms: int = NOW_MS) -> None:
    encrypted = new_entry_of(
        new,
        payload_hash=PayloadHash(hash_sealed_bytes(new.payload)),
        session_tag=SessionTag(b"session tag here"),
        sequence=0,
    )
    outbox.accept_all([encrypted], given=[new.message_id], now_ms=now_ms)
