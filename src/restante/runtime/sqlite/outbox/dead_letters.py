"""The table of dead letters: entries that were given up, why, and until when they are kept (SPEC 5)."""

from typing import Any, Final

from restante.model.error_codes import Code
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import DeadLetter, OutboxEntry, StoredDeadLetter
from restante.model.states import Confirmation, DeadCategory, DeadReason, Route, State
from restante.policy.dead_letters import DeadLetterRetention, keeps_payload, next_auto_retry_ms
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.chunk_state import ChannelProgress

_SQL: Final = load_queries("outbox/dead_letters")


class DeadLetterTable:
    """Rows only; core/outbox decides what may become of a dead letter."""

    def __init__(self, database: Database, retention: DeadLetterRetention) -> None:
        self._database = database
        self._retention = retention
        self._progress = ChannelProgress(database)

    def add(self, letter: DeadLetter, *, lane_id: int, body_id: int, size_bytes: int) -> None:
        entry = letter.entry
        first_dead_at_ms = letter.moved_at_ms if entry.first_dead_at_ms is None else entry.first_dead_at_ms
        retry_at_ms = next_auto_retry_ms(
            self._retention,
            category=letter.category,
            moved_at_ms=letter.moved_at_ms,
            last_retry_at_ms=None,
            letter_expires_at_ms=letter.expires_at_ms,
            message_expires_at_ms=entry.expires_at_ms,
        )
        self._database.rows(
            _SQL["add_letter"],
            entry.message_id,
            lane_id,
            body_id if keeps_payload(letter.category) else None,
            size_bytes,
            entry.kind,
            entry.priority,
            entry.created_at_ms,
            entry.queued_at_ms,
            entry.ttl_s,
            entry.expires_at_ms,
            entry.last_error,
            letter.reason,
            letter.code,
            letter.category,
            entry.state,
            letter.total_attempts,
            letter.first_attempt_at_ms,
            letter.last_attempt_at_ms,
            first_dead_at_ms,
            entry.confirmation,
            letter.moved_at_ms,
            letter.expires_at_ms,
            retry_at_ms,
        )

    def load(self, message_id: MessageId) -> StoredDeadLetter | None:
        rows = self._database.rows(_SQL["load_letter"], message_id)
        return _letter_of(rows[0]) if rows else None

    def letters(self, *, limit: int) -> list[StoredDeadLetter]:
        """Return dead letters in the order in which they were given up."""
        return [_letter_of(row) for row in self._database.run(_SQL["list_letters"], limit=limit)]

    def payload(self, letter: StoredDeadLetter) -> bytes | None:
        """Return the payload; None for a tombstone."""
        rows = self._database.rows(_SQL["load_body"], letter.body_id)
        return rows[0][0] if rows else None

    def remove(self, letter: StoredDeadLetter, *, with_body: bool) -> None:
        self._database.rows(_SQL["remove_letter"], letter.entry.message_id)
        if with_body:
            self._database.rows(_SQL["remove_body"], letter.body_id)
            if letter.entry.route is Route.CHANNEL:
                self._progress.remove(letter.entry.message_id)

    def expired(self, *, now_ms: int) -> list[MessageId]:
        return [MessageId(row[0]) for row in self._database.rows(_SQL["expired"], now_ms)]

    def due_for_retry(self, *, now_ms: int) -> list[MessageId]:
        return [MessageId(row[0]) for row in self._database.run(_SQL["due_for_retry"], now_ms=now_ms)]

    def retriable_in_lane(self, lane_id: int, *, now_ms: int, limit: int) -> list[MessageId]:
        """Return dead letters of a lane that were given up before now and may be retried, oldest first."""
        rows = self._database.rows(_SQL["retriable_in_lane"], lane_id, now_ms, now_ms, limit)
        return [MessageId(row[0]) for row in rows]

    def next_deadline_ms(self) -> int | None:
        """Return when a dead letter is next deleted or retried automatically."""
        [(at_ms,)] = self._database.run(_SQL["next_deadline"])
        return None if at_ms is None else int(at_ms)


def _letter_of(row: tuple[Any, ...]) -> StoredDeadLetter:
    (message_id, route, lane, body_id, size_bytes, kind, priority, created_at_ms, queued_at_ms, ttl_s,
     message_expires_at_ms, last_error, reason, code, category, state, total_attempts, first_attempt_at_ms,
     last_attempt_at_ms, first_dead_at_ms, confirmation, moved_at_ms, expires_at_ms, retry_at_ms) = row  # fmt: skip
    return StoredDeadLetter(
        entry=OutboxEntry(
            message_id=MessageId(message_id),
            route=Route(route),
            lane=lane,
            kind=Kind(kind),
            payload=b"",
            sealed_plaintext=b"",
            priority=Priority(priority),
            created_at_ms=created_at_ms,
            queued_at_ms=queued_at_ms,
            ttl_s=ttl_s,
            expires_at_ms=message_expires_at_ms,
            next_attempt_at_ms=moved_at_ms,
            attempts=total_attempts,
            state=State(state),
            last_error=None if last_error is None else Code(last_error),
            first_attempt_at_ms=first_attempt_at_ms,
            last_attempt_at_ms=last_attempt_at_ms,
            first_dead_at_ms=first_dead_at_ms,
            confirmation=Confirmation(confirmation),
        ),
        body_id=body_id or 0,
        size_bytes=size_bytes,
        reason=DeadReason(reason),
        code=None if code is None else Code(code),
        category=DeadCategory(category),
        moved_at_ms=moved_at_ms,
        expires_at_ms=expires_at_ms,
        retry_at_ms=retry_at_ms,
    )
