"""The outbox in SQLite: each step of core/outbox, its rows and its facts in one transaction (SPEC 1.4, 3.2)."""

import json
from typing import Any, Final

from restante.core.outbox import step
from restante.core.outbox_events import Bury, CapacityExceeded, Effect, Event, Forget, Leased, Record, TimePassed
from restante.model.codes import Code
from restante.model.errors import DuplicateMessageId
from restante.model.ids import Address, MessageId, PayloadHash, SessionId, SessionTag
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.records import DeadLetter, Lease, OutboxEntry
from restante.model.states import ENDED, Confirmation, Route, State
from restante.policy.capacity import admit, overflow
from restante.policy.outbox_order import QUEUE_TIME_MS
from restante.policy.pruning import SHARED_BOARD_KINDS
from restante.policy.settings import Settings
from restante.runtime.sqlite.database import Column, Database, load_queries
from restante.runtime.sqlite.journal import Journal

_SQL: Final = load_queries("outbox")
_LINK_KINDS: Final = json.dumps(sorted(SHARED_BOARD_KINDS))


class SqliteOutbox:
    """Entries of one client. Methods may be called inside a wider transaction of the same database."""

    def __init__(self, database: Database, journal: Journal, settings: Settings) -> None:
        self._database = database
        self._journal = journal
        self._settings = settings

    def next_sequence(self, peer: Address, *, new_session: SessionId) -> tuple[SessionId, int]:
        """The session with `peer` and the number of the next message in it (SPEC 8.4)."""
        [(session, sequence)] = self._database.run(_SQL["next_sequence"], peer=peer, session_id=new_session)
        return SessionId(session), sequence

    def accept(
        self, entry: OutboxEntry, *, sealed_hash: PayloadHash, session_tag: SessionTag, sequence: int, now_ms: int
    ) -> None:
        """Durable when it returns; refused whole when the outbox is full or the id is known (SPEC 3.2, 3.6)."""
        with self._database.transaction():
            [(is_known,)] = self._database.run(_SQL["is_known"], message_id=entry.message_id)
            if is_known:
                raise DuplicateMessageId
            [(entries, held_bytes)] = self._database.run(_SQL["held"])
            admit(
                self._settings.outbox,
                held_entries=entries,
                held_bytes=held_bytes,
                new_entries=1,
                new_bytes=len(entry.payload),
            )
            self._database.run(_SQL["add_entry"], message_id=entry.message_id, **_constant(entry), **_state(entry))
            insertion = self._database.last_insert()
            self._database.run(
                _SQL["add_body"],
                insertion=insertion,
                payload=entry.payload,
                sealed_plaintext=entry.sealed_plaintext,
            )
            self._journal.append(
                JournalKind.ACCEPTED,
                at_ms=now_ms,
                message_id=entry.message_id,
                session_tag=session_tag,
                sequence=sequence,
                payload_hash=sealed_hash,
                size_bytes=len(entry.payload),
                message_kind=entry.kind,
                priority=entry.priority,
                ttl_s=entry.ttl_s,
            )
            self._evict_overflow(entry, now_ms)

    def lease_next(self, *, owner: str, now_ms: int) -> OutboxEntry | None:
        """The next entry to try, claimed for `owner`; None when nothing is due."""
        with self._database.transaction():
            while rows := self._database.run(_SQL["next_due"], now_ms=now_ms):
                message_id = MessageId(rows[0][0])
                until_ms = now_ms + self._settings.outbox.lease_ms
                self.apply(message_id, Leased(owner=owner, until_ms=until_ms), now_ms=now_ms)
                entry = self.load(message_id)
                if entry is not None and entry.state is State.SENDING:
                    return entry
        return None

    def apply(self, message_id: MessageId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one step with one entry; what is not in the outbox any more has ended and is left alone."""
        with self._database.transaction():
            before = self.load(message_id)
            if before is None:
                return ()
            after, effects = step(before, event, now_ms=now_ms, settings=self._settings)
            if after != before:
                self._database.run(_SQL["store_state"], message_id=message_id, **_state(after))
            for effect in effects:
                self._carry_out(after, effect, now_ms)
        return effects

    def sweep(self, *, now_ms: int) -> None:
        """End what has expired or waited too long; take back what a dead owner held (SPEC 3.5, 3.9)."""
        with self._database.transaction():
            for (message_id,) in self._database.run(
                _SQL["to_sweep"],
                now_ms=now_ms,
                link_rows_before_ms=now_ms - self._settings.outbox.relay_row_life_ms,
                link_kinds=_LINK_KINDS,
                high_before_ms=now_ms - QUEUE_TIME_MS[Priority.HIGH],
                normal_before_ms=now_ms - QUEUE_TIME_MS[Priority.NORMAL],
                low_before_ms=now_ms - QUEUE_TIME_MS[Priority.LOW],
            ):
                self.apply(MessageId(message_id), TimePassed(), now_ms=now_ms)

    def load(self, message_id: MessageId) -> OutboxEntry | None:
        rows = self._database.run(_SQL["load_entry"], message_id=message_id)
        return _entry(rows[0]) if rows else None

    def next_wake_ms(self) -> int | None:
        """When something may be due again; None for an outbox with nothing unsent."""
        [(at_ms,)] = self._database.run(_SQL["next_wake"])
        return None if at_ms is None else int(at_ms)

    def counts(self) -> dict[State, int]:
        """How many entries are in each state, of those still in flight."""
        return {State(state): count for state, count in self._database.run(_SQL["count_by_state"])}

    def _evict_overflow(self, newest: OutboxEntry, now_ms: int) -> None:
        """A relay lane over its limit loses its oldest pending entries, visibly (SPEC 3.6)."""
        lane = {"route": newest.route, "lane": newest.lane}
        [(pending,)] = self._database.run(_SQL["count_pending"], **lane)
        surplus = overflow(self._settings.outbox, route=newest.route, pending=pending)
        for (message_id,) in self._database.run(_SQL["oldest_pending"], limit=surplus, **lane):
            self.apply(MessageId(message_id), CapacityExceeded(), now_ms=now_ms)

    def _carry_out(self, entry: OutboxEntry, effect: Effect, now_ms: int) -> None:
        match effect:
            case Record():
                self._journal.append(
                    effect.kind,
                    at_ms=now_ms,
                    message_id=entry.message_id,
                    message_kind=entry.kind,
                    priority=entry.priority,
                    attempt=entry.attempts,
                    code=effect.code,
                    latency_ms=effect.latency_ms,
                )
            case Bury():
                self._bury(effect.letter)
            case Forget() if entry.state in ENDED:
                self._database.run(_SQL["remove_entry"], message_id=entry.message_id)

    def _bury(self, letter: DeadLetter) -> None:
        self._database.run(
            _SQL["bury_letter"],
            message_id=letter.entry.message_id,
            reason=letter.reason,
            code=letter.code,
            category=letter.category,
            total_attempts=letter.total_attempts,
            moved_at_ms=letter.moved_at_ms,
            expires_at_ms=letter.expires_at_ms,
            payload=letter.entry.payload,
            sealed_plaintext=letter.entry.sealed_plaintext,
        )


def _constant(entry: OutboxEntry) -> dict[str, Column]:
    return {
        "route": entry.route,
        "lane": entry.lane,
        "kind": entry.kind,
        "priority": entry.priority,
        "created_at_ms": entry.created_at_ms,
        "ttl_s": entry.ttl_s,
    }


def _state(entry: OutboxEntry) -> dict[str, Column]:
    return {
        "queued_at_ms": entry.queued_at_ms,
        "expires_at_ms": entry.expires_at_ms,
        "next_attempt_at_ms": entry.next_attempt_at_ms,
        "attempts": entry.attempts,
        "state": entry.state,
        "lease_owner": entry.lease.owner if entry.lease else None,
        "lease_until_ms": entry.lease.until_ms if entry.lease else None,
        "last_error": entry.last_error,
        "first_attempt_at_ms": entry.first_attempt_at_ms,
        "last_attempt_at_ms": entry.last_attempt_at_ms,
        "was_sent": entry.was_sent,
        "reencrypted": entry.reencrypted,
        "confirmation": entry.confirmation,
    }


def _entry(row: tuple[Any, ...]) -> OutboxEntry:
    """A row of `load_entry`. STRICT tables make the types of its columns certain."""
    (insertion, message_id, route, lane, kind, priority, created_at_ms, queued_at_ms, ttl_s, expires_at_ms,
     next_attempt_at_ms, attempts, state, lease_owner, lease_until_ms, last_error, first_attempt_at_ms,
     last_attempt_at_ms, was_sent, reencrypted, confirmation, payload, sealed_plaintext) = row  # fmt: skip
    return OutboxEntry(
        message_id=MessageId(message_id),
        route=Route(route),
        lane=lane,
        kind=Kind(kind),
        payload=payload,
        sealed_plaintext=sealed_plaintext,
        priority=Priority(priority),
        created_at_ms=created_at_ms,
        queued_at_ms=queued_at_ms,
        ttl_s=ttl_s,
        expires_at_ms=expires_at_ms,
        next_attempt_at_ms=next_attempt_at_ms,
        insertion=insertion,
        attempts=attempts,
        state=State(state),
        lease=None if lease_owner is None else Lease(owner=lease_owner, until_ms=lease_until_ms),
        last_error=None if last_error is None else Code(last_error),
        first_attempt_at_ms=first_attempt_at_ms,
        last_attempt_at_ms=last_attempt_at_ms,
        was_sent=bool(was_sent),
        reencrypted=bool(reencrypted),
        confirmation=Confirmation(confirmation),
    )
