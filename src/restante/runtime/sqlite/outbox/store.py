"""The outbox in SQLite: each step of core/outbox, its rows and its journal events in one transaction (SPEC 1.4, 3).

Every method may be called alone or inside a wider transaction. Those that can refuse do so before they write."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from restante.core.outbox import step
from restante.core.outbox_events import (
    AppendJournalEvent,
    Effect,
    EmitEvent,
    Event,
    OutboxEventType,
    ReadAcked,
    RecipientReached,
    Recovered,
    ResetSession,
    StoreDeadLetter,
    TimePassed,
    TransmitSucceeded,
)
from restante.model.errors import OutboxFull
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.outbox_entry import OutboxEntry, StoredDeadLetter
from restante.model.states import ENDED, DeadCategory, Route, State
from restante.policy.capacity import Held, check_upstream_recovery
from restante.policy.dead_letters import keeps_payload
from restante.policy.pruning import next_deadline_ms
from restante.policy.send_order import HOUR_MS, MAX_LEASE_MS, is_unsent
from restante.policy.settings import Settings
from restante.ports.encryptor import Encrypted, Encryptor
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.chunk_state import ChannelProgress
from restante.runtime.sqlite.outbox.dead_letters import DeadLetterTable
from restante.runtime.sqlite.outbox.deadlines import Deadlines
from restante.runtime.sqlite.outbox.delivered_index import DeliveredIndex
from restante.runtime.sqlite.outbox.entry_cache import CachedEntry, EntryCache
from restante.runtime.sqlite.outbox.intake import Intake
from restante.runtime.sqlite.outbox.lanes import Lane, LaneTable
from restante.runtime.sqlite.outbox.leases import Leases
from restante.runtime.sqlite.outbox.new_entry import NewEntry, OutboxEvent, new_entry_of
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS, entry_of, row_of

SWEEP_PAGE: Final = 1_000
RETRIED_AT_ONCE: Final = 256
"""Dead letters of a recipient that one stored message brings back; the next one brings more."""
_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_REMOVE_BODY: Final = _SQL["remove_body"]
_ALL_ROUTES: Final = frozenset(Route)


class SqliteOutbox:
    """Entries of one client from acceptance to their end, dead letters, and the final states of the last 30 days."""

    def __init__(
        self, database: Database, journal: Journal, settings: Settings, *, encryptor: Encryptor | None = None
    ) -> None:
        self._database = database
        self._journal = journal
        self._settings = settings
        self._limits = settings.outbox
        self.changes: list[OutboxEvent] = []
        self.deadlines = Deadlines(database)
        self._cache = EntryCache(database)
        self.lanes = self._lanes = LaneTable(database)
        database.on_invalidate(self.changes.clear)
        self.dead_letters = DeadLetterTable(database, settings.dead_letters)
        self.ended = DeliveredIndex(database, journal)
        self.progress = ChannelProgress(database)
        self._intake = Intake(
            database,
            journal,
            self._lanes,
            self._cache,
            settings.outbox,
            apply=lambda message_id, event, now_ms: self.apply(message_id, event, now_ms=now_ms),
            emit=self._emit,
            note_deadline=self.deadlines.note,
        )
        self.has_space = self._intake.has_space
        self._leases = Leases(
            database, self._lanes, self._cache, self.deadlines, step=self._step, settings=settings, encryptor=encryptor
        )

    def take_changes(self) -> list[OutboxEvent]:
        """Return the events since the last call, for the application; call this after the commit."""
        changes = self.changes[:]
        self.changes.clear()
        return changes

    def accept(self, entry: OutboxEntry, *, relay: str | None = None, now_ms: int) -> None:
        """Accept one entry as it is. Raises `OutboxFull` or `DuplicateMessageId`; nothing is stored then."""
        self.accept_all([new_entry_of(entry, relay=relay)], given=[entry.message_id], now_ms=now_ms)

    def accept_all(self, new: Sequence[NewEntry], given: Sequence[MessageId], now_ms: int) -> None:
        """Accept all messages or none. `given` are ids that the caller chose, which may be in use."""
        with self._database.transaction():
            self._intake.accept_all(new, given, now_ms)

    def lease(
        self,
        *,
        owner: str,
        routes: Collection[Route],
        is_connected: Callable[[Route, str], bool] = lambda _route, _lane: True,
        limit: int,
        now_ms: int,
        is_thorough: bool = True,
    ) -> list[OutboxEntry]:
        """Lease up to `limit` entries of connected lanes for `owner`, in the order of choice (SPEC 3.3, 3.4).

        Unless `is_thorough`, what time alone changes is looked for only if a deadline has come.
        """
        with self._database.transaction():
            if is_thorough or self.deadlines.has_come(now_ms=now_ms):
                is_thorough = True
                while self.sweep(now_ms=now_ms):
                    pass
            return self._leases.lease(
                owner=owner,
                routes=routes,
                is_connected=is_connected,
                limit=limit,
                now_ms=now_ms,
                stores_again=is_thorough,
            )

    def lease_lanes(
        self, lanes: Iterable[tuple[Route, str]], *, owner: str, limit: int, now_ms: int
    ) -> list[OutboxEntry]:
        """Lease from these lanes only: for a message that was accepted in this transaction, on an idle lane."""
        with self._database.transaction():
            return self._leases.lease_lanes(lanes, owner=owner, limit=limit, now_ms=now_ms)

    def lease_next(self, *, owner: str, now_ms: int) -> OutboxEntry | None:
        leased = self.lease(owner=owner, routes=tuple(Route), limit=1, now_ms=now_ms)
        return leased[0] if leased else None

    def apply(self, message_id: MessageId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one step with one message and return the effects; an ended message is left alone."""
        with self._database.transaction():
            cached = self._cache.find(message_id)
            if cached is not None:
                return self._step(cached, event, now_ms)[1]
            letter = self.dead_letters.load(message_id)
            if letter is not None:
                return self._step_dead(letter, event, now_ms)
            if isinstance(event, ReadAcked) and self.ended.mark_read(message_id, now_ms=now_ms):
                self._emit(message_id, OutboxEventType.READ, None, now_ms)
            return ()

    def sweep(self, *, now_ms: int, dead_owner: str | None = None) -> int:
        """End what has expired and take back what a dead owner held (SPEC 3.5, 3.9), or all that `dead_owner` holds.

        Returns how many entries changed, of one page; call again until none did.
        """
        with self._database.transaction():
            due = (_SQL["to_sweep"], now_ms, now_ms + MAX_LEASE_MS, SWEEP_PAGE)
            changed = 0
            for values in self._database.rows(*(due if dead_owner is None else (_SQL["leased_by"], dead_owner))):
                cached = self._cache.add(row_of(values))
                before = cached.entry
                changed += self._step(cached, TimePassed(dead_owner=dead_owner), now_ms)[0] is not before
            return changed

    def pass_connected_time(self, is_connected: Callable[[Route, str], bool], *, now_ms: int) -> None:
        """Advance the clocks of connected lanes, and give up what has waited too long on them (SPEC 2.2).

        A lane that was last checked long ago, or by a clock that jumped, advances by two intervals at most.
        """
        with self._database.transaction():
            for lane in self._lanes.with_unsent():
                elapsed_ms = min(max(0, now_ms - lane.checked_at_ms), 2 * self._limits.sweep_interval_ms)
                lane.checked_at_ms = now_ms
                self._lanes.mark_changed(lane)
                if is_connected(lane.route, lane.name):
                    lane.connected_ms += elapsed_ms
                    self._give_up_overdue(lane, now_ms)

    def run_maintenance(self, *, now_ms: int) -> None:
        """Delete dead letters whose retention is over, retry those that are due, prune the delivered index."""
        with self._database.transaction():
            for message_id in self.dead_letters.expired(now_ms=now_ms):
                self.discard(message_id, now_ms=now_ms)
            for message_id in self.dead_letters.due_for_retry(now_ms=now_ms):
                with contextlib.suppress(OutboxFull):  # it stays a dead letter, and due
                    self.apply(message_id, Recovered(is_automatic=True), now_ms=now_ms)
            self.ended.prune(now_ms=now_ms)

    def discard(self, message_id: MessageId, *, now_ms: int) -> bool:
        """Delete a dead letter; return whether there was one. Its final state stays in the delivered index."""
        with self._database.transaction():
            letter = self.dead_letters.load(message_id)
            if letter is None:
                return False
            self._remove_letter(letter, with_body=True)
            self.ended.add(letter.entry, now_ms=letter.moved_at_ms)
            event = AppendJournalEvent(kind=JournalKind.DISCARDED, code=letter.category)
            self._journal.append_step(letter.entry, event, now_ms)
            return True

    def replace_payload(self, message_id: MessageId, payload: bytes) -> None:
        """Store other sealed bytes. A message without any is encrypted by its next lease (SPEC 8.7)."""
        cached = self._cache.find(message_id)
        if cached is not None:
            self._database.rows(_SQL["store_payload"], payload, cached.body_id)

    def append_journal_events(
        self, message_id: MessageId, *effects: AppendJournalEvent | EmitEvent, now_ms: int
    ) -> None:
        """Journal and emit events that leave the entry as it is."""
        cached = self._cache.find(message_id)
        if cached is not None:
            self._carry_out(cached.entry, effects, now_ms)

    def load(self, message_id: MessageId) -> OutboxEntry | None:
        """Return an entry in flight with its body."""
        for values in self._database.rows(_SQL["load_entry"], message_id):
            row = row_of(values)
            [(payload, sealed_plaintext)] = self._database.rows(_SQL["load_body"], row.body_id)
            return entry_of(row, payload, sealed_plaintext)
        return None

    def entries(self, *, limit: int) -> list[OutboxEntry]:
        """Return the oldest entries in flight, without their bodies."""
        return [entry_of(row_of(values)) for values in self._database.run(_SQL["list_entries"], limit=limit)]

    def is_idle(self, route: Route, lane: str) -> bool:
        """Return whether the lane has no unsent entry, so that a new one may leave at once."""
        self._lanes.refresh()
        known = self._lanes.get(route, lane)
        return known is None or known.first_place is None

    def next_wake_ms(self, *, now_ms: int) -> int | None:
        """Return when something may be due again; None if nothing waits."""
        waits = [lane.due_at_ms for lane in self._lanes.with_next(_ALL_ROUTES) if lane.due_at_ms is not None]
        deadline_ms = self.deadlines.next_ms(now_ms=now_ms)
        known = [wait for wait in waits if wait > now_ms] + ([] if deadline_ms is None else [deadline_ms])
        return min(known, default=None)

    def held(self) -> Held:
        """Return what counts against capacity: mail in flight and dead letters with a payload (SPEC 3.6, 5.3)."""
        return self._lanes.held(control=False)

    def counts(self) -> dict[State, int]:
        """Return how many entries are in flight, by state."""
        return {State(state): count for state, count in self._database.run(_SQL["count_by_state"])}

    def _give_up_overdue(self, lane: Lane, now_ms: int) -> None:
        rows = self._database.rows(_SQL["overdue_in_lane"], lane.lane_id, lane.connected_ms - HOUR_MS)
        for *values, queued_connected_ms in rows:
            event = TimePassed(connected_ms=lane.connected_ms - queued_connected_ms)
            self._step(self._cache.add(row_of(tuple(values))), event, now_ms)

    def _step(
        self, cached: CachedEntry, event: Event, now_ms: int, encrypted: Encrypted | None = None
    ) -> tuple[OutboxEntry, tuple[Effect, ...]]:
        """Take a step of the machine; the first lease also journals how the message was `encrypted`."""
        before = cached.entry
        after, effects = step(before, event, now_ms=now_ms, settings=self._settings)
        if after is before and not effects:
            return after, effects
        lane = self._lanes.by_id(cached.lane_id)
        if after.state in ENDED:
            self._end(after, effects, cached, lane, now_ms)
        elif after is not before:
            self._cache.store(cached, after)
            if after.lease is not None:
                self.deadlines.note(after.lease.until_ms)
            elif after.was_sent:
                self.deadlines.note(after.next_attempt_at_ms)
        if is_unsent(before) and (after.state, after.next_attempt_at_ms) != (before.state, before.next_attempt_at_ms):
            self._lanes.change(lane, after)
            if after.state is State.PENDING:
                lane.waits_until_ms = max(lane.waits_until_ms, after.next_attempt_at_ms)
        self._carry_out(after, effects, now_ms, encrypted)
        if type(event) is TransmitSucceeded:
            self._follow_up_stored(lane, now_ms)
        return after, effects

    def _follow_up_stored(self, lane: Lane, now_ms: int) -> None:
        """The recipient was reached: waits for it end, and its dead letters are retried (SPEC 3.4, 5.3)."""
        for other in self._lanes.of_recipient(lane):
            if other.waits_until_ms > now_ms:
                other.waits_until_ms = now_ms
                self._lanes.mark_changed(other)
                for values in self._database.rows(_SQL["waiting_in_lane"], other.lane_id, now_ms):
                    self._step(self._cache.add(row_of(values)), RecipientReached(), now_ms)
            if other.dead:
                self._retry_dead_letters(other, now_ms)

    def _retry_dead_letters(self, lane: Lane, now_ms: int) -> None:
        for message_id in self.dead_letters.retriable_in_lane(lane.lane_id, now_ms=now_ms, limit=RETRIED_AT_ONCE):
            with contextlib.suppress(OutboxFull):
                self.apply(message_id, Recovered(is_automatic=True), now_ms=now_ms)

    def _end(
        self, entry: OutboxEntry, effects: tuple[Effect, ...], cached: CachedEntry, lane: Lane, now_ms: int
    ) -> None:
        self._cache.remove(cached)
        letter = next((effect.letter for effect in effects if isinstance(effect, StoreDeadLetter)), None)
        if letter is None:
            self.ended.add(entry, now_ms=now_ms)
        else:
            self.dead_letters.add(letter, lane_id=cached.lane_id, body_id=cached.body_id, size_bytes=cached.size_bytes)
            if keeps_payload(letter.category):
                self._lanes.count_dead(lane, int(letter.category is DeadCategory.RETRIABLE))
                return  # the payload still counts against capacity (SPEC 5.3)
        self._lanes.count(lane, -1, -cached.size_bytes)
        self._database.defer(_REMOVE_BODY, (cached.body_id,))
        if entry.route is Route.CHANNEL:
            self.progress.remove(entry.message_id)

    def _remove_letter(self, letter: StoredDeadLetter, *, with_body: bool) -> None:
        self.dead_letters.remove(letter, with_body=with_body)
        lane = self._lanes.get(letter.entry.route, letter.entry.lane)
        if lane is None or not keeps_payload(letter.category):
            return
        self._lanes.count_dead(lane, -int(letter.category is DeadCategory.RETRIABLE))
        if with_body:
            self._lanes.count(lane, -1, -letter.size_bytes)

    def _step_dead(self, letter: StoredDeadLetter, event: Event, now_ms: int) -> tuple[Effect, ...]:
        after, effects = step(letter.entry, event, now_ms=now_ms, settings=self._settings)
        if after.state is letter.entry.state:
            return effects
        if after.state is State.PENDING:
            self._recover(letter, after, effects, now_ms)
        else:
            self._remove_letter(letter, with_body=True)
            self.ended.add(after, now_ms=now_ms)
            self._carry_out(after, effects, now_ms)
        return effects

    def _recover(self, letter: StoredDeadLetter, after: OutboxEntry, effects: tuple[Effect, ...], now_ms: int) -> None:
        """Queue a dead letter at the end of its lane. It counted against capacity all the time."""
        lane = self._lanes.get_or_add(after.route, after.lane, relay=None, now_ms=now_ms)
        if after.route is Route.UPSTREAM:
            pending = len(self._database.rows(_SQL["oldest_pending"], lane.lane_id))
            check_upstream_recovery(self._limits, lane=after.lane, pending=pending)
        self._remove_letter(letter, with_body=False)
        number = self._carry_out(after, effects, now_ms)
        place = self._lanes.append(
            lane,
            message_id=after.message_id,
            queue_number=number,
            priority=after.priority,
            created_at_ms=after.created_at_ms,
            due_at_ms=after.next_attempt_at_ms,
            now_ms=now_ms,
        )
        deadline_ms = next_deadline_ms(
            self._limits, route=after.route, queued_at_ms=after.queued_at_ms, expires_at_ms=after.expires_at_ms
        )
        self.deadlines.note(deadline_ms)
        self._database.rows(
            _SQL["add_recovered"],
            number,
            after.message_id,
            lane.lane_id,
            place,
            letter.body_id,
            letter.size_bytes,
            after.kind,
            after.priority,
            after.created_at_ms,
            after.ttl_s,
            after.queued_at_ms,
            lane.connected_ms,
            after.expires_at_ms,
            deadline_ms,
            after.next_attempt_at_ms,
            after.first_dead_at_ms,
            after.last_error,
            after.first_attempt_at_ms,
            after.last_attempt_at_ms,
            after.confirmation,
        )

    def _carry_out(
        self, entry: OutboxEntry, effects: tuple[Effect, ...], now_ms: int, encrypted: Encrypted | None = None
    ) -> int:
        """Journal and emit what a step asks for; return the number of the last journal event."""
        number = 0
        for effect in effects:
            if isinstance(effect, AppendJournalEvent):
                number = self._journal.append_step(entry, effect, now_ms, encrypted)
            elif isinstance(effect, EmitEvent):
                self._emit(entry.message_id, effect.notice, effect.code, now_ms)
            elif isinstance(effect, ResetSession):
                self._emit(entry.message_id, OutboxEventType.SECURITY, "session_deleted", now_ms)
        return number

    def _emit(self, message_id: MessageId, notice: OutboxEventType, code: str | None, now_ms: int) -> None:
        self.changes.append(OutboxEvent(message_id, notice, code, now_ms))
