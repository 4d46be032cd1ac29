"""The outbox in SQLite: each step of core/outbox, its rows and its facts in one transaction (SPEC 1.4, 3).

Every method is one operation: it may be called alone, inside a wider transaction, or as one of a group that shares a
commit. Methods that can refuse do so before they write.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from restante.core.outbox import step
from restante.core.outbox_events import (
    Bury,
    CapacityExceeded,
    Effect,
    Event,
    Leased,
    Notice,
    Notify,
    ReadAcked,
    Record,
    Recovered,
    ResetSession,
    TimePassed,
)
from restante.model.errors import DuplicateMessageId, OutboxFull
from restante.model.ids import Address, MessageId, PayloadHash, SessionId, SessionTag
from restante.model.journal import JournalKind
from restante.model.records import OutboxEntry
from restante.model.states import ENDED, Route, State
from restante.policy.capacity import admit, overflow, readmit
from restante.policy.dead_letters import keeps_payload
from restante.policy.outbox_order import STRICT_ROUTES, is_unsent
from restante.policy.settings import Settings
from restante.runtime.sqlite.database import Database, load_queries
from restante.runtime.sqlite.dead_letters import DeadLetterTable, KeptLetter
from restante.runtime.sqlite.journal import Journal
from restante.runtime.sqlite.outbox_rows import NOT_READ, constant_columns, entry_of, state_columns
from restante.runtime.sqlite.sent_index import SentIndex

SWEEP_PAGE: Final = 1_000
_SQL: Final = load_queries("outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """An entry on its way in, with what only its first fact says about it.

    `is_minted` says that its id was drawn for it just now, so that nobody can have had it before.
    """

    entry: OutboxEntry
    is_minted: bool = False
    sealed_hash: PayloadHash | None = None
    session_tag: SessionTag | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the application is to be told, after the commit."""

    message_id: MessageId
    notice: Notice
    code: str | None
    at_ms: int


class SqliteOutbox:
    """Entries of one client, from acceptance to their end, and what is remembered of them afterwards."""

    def __init__(self, database: Database, journal: Journal, settings: Settings) -> None:
        self._database = database
        self._journal = journal
        self._settings = settings
        self._limits = settings.outbox
        self._changes: list[Change] = []
        self.dead_letters = DeadLetterTable(database, settings.dead_letters)
        self.sent = SentIndex(database, journal)

    def take_changes(self) -> list[Change]:
        """What happened since this was last asked; to be told only after the commit."""
        changes, self._changes = self._changes, []
        return changes

    def next_sequence(self, peer: Address, *, new_session: SessionId) -> tuple[SessionId, int]:
        """The session with `peer` and the number of the next message in it (SPEC 8.4)."""
        [(session, sequence)] = self._database.run(_SQL["next_sequence"], peer=peer, session_id=new_session)
        return SessionId(session), sequence

    def accept(
        self,
        entry: OutboxEntry,
        *,
        sealed_hash: PayloadHash | None = None,
        session_tag: SessionTag | None = None,
        sequence: int | None = None,
        now_ms: int,
    ) -> None:
        """Durable when committed; refused whole when the outbox is full or the id is known (SPEC 3.2, 3.6)."""
        self.accept_all(
            [Acceptance(entry=entry, sealed_hash=sealed_hash, session_tag=session_tag, sequence=sequence)],
            now_ms=now_ms,
        )

    def accept_all(self, acceptances: Sequence[Acceptance], *, now_ms: int) -> None:
        """All of them or none."""
        with self._database.transaction():
            self._refuse_if_full(len(acceptances), sum(len(acceptance.entry.payload) for acceptance in acceptances))
            ids = [acceptance.entry.message_id for acceptance in acceptances]
            brought = [acceptance.entry.message_id for acceptance in acceptances if not acceptance.is_minted]
            if len(set(ids)) != len(ids) or any(self._is_known(message_id) for message_id in brought):
                raise DuplicateMessageId
            for acceptance in acceptances:
                self._add(acceptance, now_ms)

    def lease_next(self, *, owner: str, now_ms: int) -> OutboxEntry | None:
        """The next entry to try, claimed for `owner`; None when nothing is due."""
        leased = self.lease(owner=owner, routes=tuple(Route), limit=1, now_ms=now_ms)
        return leased[0] if leased else None

    def lease(
        self,
        *,
        owner: str,
        routes: Iterable[Route],
        lanes_down: Collection[tuple[Route, str]] = (),
        limit: int,
        now_ms: int,
    ) -> list[OutboxEntry]:
        """Up to `limit` entries in the order of choice, claimed for `owner`. What has expired ends first (SPEC 3.3)."""
        with self._database.transaction():
            # Again until nothing is left: a claim that lapsed may have outwaited its queue time, too.
            while self.sweep(now_ms=now_ms):
                pass
            ready = self._ready(routes, lanes_down, limit, now_ms)
            claim = Leased(owner=owner, until_ms=now_ms + self._limits.lease_ms)
            return [self._claimed(MessageId(message_id), claim, now_ms) for message_id, *_ in ready]

    def ready_lanes(
        self, *, routes: Iterable[Route], lanes_down: Collection[tuple[Route, str]], limit: int, now_ms: int
    ) -> set[tuple[Route, str]]:
        """The lanes of the entries that would be leased next."""
        return {(route, lane) for _, route, lane, *_ in self._ready(routes, lanes_down, limit, now_ms)}

    def apply(self, message_id: MessageId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one step with one message; what has ended and is remembered no more is left alone."""
        with self._database.transaction():
            rows = self._database.rows(_SQL["load_entry"], message_id)
            if rows:
                return self._step(rows[0], event, now_ms)[1]
            letter = self.dead_letters.load(message_id)
            if letter is not None:
                return self._step_dead(letter, event, now_ms)
            if isinstance(event, ReadAcked) and self.sent.mark_read(message_id, now_ms=now_ms):
                self._changes.append(Change(message_id=message_id, notice=Notice.READ, code=None, at_ms=now_ms))
        return ()

    def sweep(self, *, now_ms: int) -> int:
        """End what has expired or waited too long, take back what a dead owner held (SPEC 3.5, 3.9)."""
        with self._database.transaction():
            due = self._database.run(_SQL["to_sweep"], now_ms=now_ms, limit=SWEEP_PAGE)
            for (message_id,) in due:
                self.apply(MessageId(message_id), TimePassed(), now_ms=now_ms)
            return len(due)

    def tidy(self, *, now_ms: int) -> None:
        """The slower housekeeping: dead letters whose time is over, daily retries, old entries of the sent-index."""
        with self._database.transaction():
            for message_id in self.dead_letters.expired(now_ms=now_ms):
                self.discard(message_id, now_ms=now_ms)
            for message_id in self.dead_letters.due_for_retry(now_ms=now_ms):
                with contextlib.suppress(OutboxFull):  # it stays a dead letter, and due
                    self.apply(message_id, Recovered(by_itself=True), now_ms=now_ms)
            self.sent.forget_old(now_ms=now_ms)

    def discard(self, message_id: MessageId, *, now_ms: int) -> bool:
        """Delete a dead letter for good; whether there was one."""
        with self._database.transaction():
            letter = self.dead_letters.load(message_id)
            if letter is None:
                return False
            self.dead_letters.remove(letter, with_body=True)
            self._note(letter.entry, Record(kind=JournalKind.DISCARDED, code=letter.category), now_ms)
            return True

    def replace_payload(self, message_id: MessageId, payload: bytes) -> None:
        """The message was sealed anew: what is sent from now on (SPEC 4.4, E008 and E009)."""
        with self._database.transaction():
            for row in self._database.rows(_SQL["load_entry"], message_id):
                self._database.rows(_SQL["store_payload"], payload, row[2])
                self._database.rows(_SQL["store_size"], len(payload), row[0])

    def load(self, message_id: MessageId) -> OutboxEntry | None:
        """The entry with its body, if it is in flight."""
        rows = self._database.rows(_SQL["load_entry"], message_id)
        return self._with_body(rows[0]) if rows else None

    def entries(self, *, limit: int) -> list[OutboxEntry]:
        """The oldest entries in flight, without their bodies."""
        return [entry_of(row) for row in self._database.run(_SQL["list_entries"], limit=limit)]

    def next_wake_ms(self) -> int | None:
        """When something may be due again; None for an outbox in which nothing waits."""
        [(at_ms,)] = self._database.run(_SQL["next_wake"])
        return None if at_ms is None else int(at_ms)

    def held(self) -> tuple[int, int]:
        """Entries and bytes in flight."""
        [(entries, held_bytes)] = self._database.run(_SQL["totals"])
        return entries, held_bytes

    def counts(self) -> dict[State, int]:
        """How many entries are in each state, of those still in flight."""
        return {State(state): count for state, count in self._database.run(_SQL["count_by_state"])}

    def _ready(
        self, routes: Iterable[Route], lanes_down: Collection[tuple[Route, str]], limit: int, now_ms: int
    ) -> list[tuple[MessageId, Route, str, int, int, int]]:
        """Up to `limit` entries that may leave now, in the order of choice over all routes (SPEC 3.3)."""
        self._database.run(_SQL["wake_due"], now_ms=now_ms)
        found: list[tuple[MessageId, Route, str, int, int, int]] = []
        for route in tuple(routes):
            down = json.dumps([lane for other, lane in lanes_down if other is route])
            rows = self._database.run(_SQL["ready"], route=route, lanes_down=down, limit=limit)
            if any(row[-1] > now_ms for row in rows):
                # The clock stepped back, or somebody with a later `now_ms` came first: their time has yet to come.
                self._database.run(_SQL["wait_again"], now_ms=now_ms)
                rows = self._database.run(_SQL["ready"], route=route, lanes_down=down, limit=limit)
            found += [(MessageId(row[0]), route, *row[1:5]) for row in rows]
        found.sort(key=lambda row: (-row[3], row[4], row[5]))
        return found[:limit]

    def _refuse_if_full(self, new_entries: int, new_bytes: int) -> None:
        entries, held_bytes = self.held()
        admit(
            self._limits,
            held_entries=entries,
            held_bytes=held_bytes,
            new_entries=new_entries,
            new_bytes=new_bytes,
        )

    def _is_known(self, message_id: MessageId) -> bool:
        [(known,)] = self._database.rows(_SQL["is_known"], message_id)
        return bool(known)

    def _add(self, acceptance: Acceptance, now_ms: int) -> None:
        entry = acceptance.entry
        self._database.rows(_SQL["add_body"], entry.payload, entry.sealed_plaintext)
        self._insert(entry, self._database.last_insert(), len(entry.payload), now_ms)
        self._journal.append(
            JournalKind.ACCEPTED,
            at_ms=now_ms,
            message_id=entry.message_id,
            session_tag=acceptance.session_tag,
            sequence=acceptance.sequence,
            payload_hash=acceptance.sealed_hash,
            size_bytes=len(entry.payload),
            message_kind=entry.kind,
            priority=entry.priority,
            ttl_s=entry.ttl_s,
        )
        self._tell(entry, Notify(notice=Notice.QUEUED), now_ms)
        if entry.route is Route.RELAY:
            self._evict_overflow(entry, now_ms)

    def _insert(self, entry: OutboxEntry, body_id: int, size_bytes: int, now_ms: int) -> None:
        """At the end of its lane; in a strict one it waits while anything unsent stands before it (SPEC 3.4)."""
        behind = entry.route in STRICT_ROUTES and not entry.was_sent and bool(self._head_of_lane(entry))
        self._database.rows(
            _SQL["add_entry"],
            entry.message_id,
            body_id,
            size_bytes,
            *constant_columns(entry),
            *state_columns(entry, self._limits, is_behind=behind, now_ms=now_ms),
        )

    def _is_behind(self, entry: OutboxEntry) -> bool:
        """Whether an earlier unsent entry of a strict lane stands before this one."""
        if entry.route not in STRICT_ROUTES or entry.state is not State.PENDING or entry.was_sent:
            return False
        return self._head_of_lane(entry) != [(entry.message_id,)]

    def _head_of_lane(self, entry: OutboxEntry) -> list[tuple[Any, ...]]:
        return self._database.rows(_SQL["head_of_lane"], entry.route, entry.lane)

    def _claimed(self, message_id: MessageId, claim: Leased, now_ms: int) -> OutboxEntry:
        [row] = self._database.rows(_SQL["load_entry"], message_id)
        return self._step(row, claim, now_ms, self._body(row))[0]

    def _step(
        self, row: tuple[Any, ...], event: Event, now_ms: int, body: tuple[bytes, bytes] = (NOT_READ, NOT_READ)
    ) -> tuple[OutboxEntry, tuple[Effect, ...]]:
        before = entry_of(row, body)
        after, effects = step(before, event, now_ms=now_ms, settings=self._settings)
        if after is before:
            return after, effects
        insertion, body_id = row[0], row[2]
        if after.state in ENDED:
            self._database.rows(_SQL["remove_entry"], insertion)
            self._end(after, effects, body_id, row[3], now_ms)
        else:
            columns = state_columns(after, self._limits, is_behind=self._is_behind(after), now_ms=now_ms)
            self._database.rows(_SQL["store_state"], *columns, insertion)
        self._carry_out(after, effects, now_ms)
        if before.route in STRICT_ROUTES and is_unsent(before) and not is_unsent(after):
            self._move_lane_on(after, now_ms)
        return after, effects

    def _end(self, entry: OutboxEntry, effects: tuple[Effect, ...], body_id: int, size_bytes: int, now_ms: int) -> None:
        letters = [effect.letter for effect in effects if isinstance(effect, Bury)]
        for letter in letters:
            self.dead_letters.add(letter, body_id=body_id, size_bytes=size_bytes)
        if not any(keeps_payload(letter.category) for letter in letters):
            self._database.rows(_SQL["remove_body"], body_id)
        if entry.state is State.DELIVERED:
            self.sent.remember(entry, now_ms=now_ms)

    def _step_dead(self, letter: KeptLetter, event: Event, now_ms: int) -> tuple[Effect, ...]:
        after, effects = step(letter.entry, event, now_ms=now_ms, settings=self._settings)
        if after.state is letter.entry.state:
            return effects
        if after.state is State.PENDING:
            self._refuse_if_full(1, letter.size_bytes)
            readmit(self._limits, route=after.route, pending=self._pending_in_lane(after))
            self.dead_letters.remove(letter, with_body=False)
            self._insert(after, letter.body_id, letter.size_bytes, now_ms)
        else:
            self.dead_letters.remove(letter, with_body=True)
            self.sent.remember(after, now_ms=now_ms)
        self._carry_out(after, effects, now_ms)
        return effects

    def _move_lane_on(self, entry: OutboxEntry, now_ms: int) -> None:
        for (message_id,) in self._head_of_lane(entry):
            self._database.run(_SQL["give_turn"], message_id=message_id, now_ms=now_ms)

    def _evict_overflow(self, newest: OutboxEntry, now_ms: int) -> None:
        """A relay lane over its limit loses its oldest pending entries, visibly (SPEC 3.6)."""
        surplus = overflow(self._limits, route=newest.route, pending=self._pending_in_lane(newest))
        if surplus:
            for (message_id,) in self._database.rows(_SQL["oldest_pending"], newest.route, newest.lane, surplus):
                self.apply(MessageId(message_id), CapacityExceeded(), now_ms=now_ms)

    def _pending_in_lane(self, entry: OutboxEntry) -> int:
        rows = self._database.rows(_SQL["pending_in_lane"], entry.route, entry.lane)
        return int(rows[0][0]) if rows else 0

    def _carry_out(self, entry: OutboxEntry, effects: tuple[Effect, ...], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                self._note(entry, effect, now_ms)
            elif isinstance(effect, Notify):
                self._tell(entry, effect, now_ms)
            elif isinstance(effect, ResetSession):
                self._tell(entry, Notify(notice=Notice.SECURITY, code="session_reset"), now_ms)

    def _note(self, entry: OutboxEntry, record: Record, now_ms: int) -> None:
        self._journal.append(
            record.kind,
            at_ms=now_ms,
            message_id=entry.message_id,
            message_kind=entry.kind,
            priority=entry.priority,
            attempt=entry.attempts,
            code=record.code,
            latency_ms=record.latency_ms,
        )

    def _tell(self, entry: OutboxEntry, notify: Notify, now_ms: int) -> None:
        self._changes.append(Change(message_id=entry.message_id, notice=notify.notice, code=notify.code, at_ms=now_ms))

    def _with_body(self, row: tuple[Any, ...]) -> OutboxEntry:
        return entry_of(row, self._body(row))

    def _body(self, row: tuple[Any, ...]) -> tuple[bytes, bytes]:
        [(payload, sealed_plaintext)] = self._database.rows(_SQL["load_body"], row[2])
        return payload, sealed_plaintext
