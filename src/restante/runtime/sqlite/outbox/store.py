"""The outbox in SQLite: each step of core/outbox, its rows and its facts in one transaction (SPEC 1.4, 3).

Every method is one operation: it may be called alone, inside a wider transaction, or as one of a group that shares a
commit. Methods that can refuse do so before they write. Rows are read once and written together: entries that were
touched lately are remembered for as long as nobody else writes to the file.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from restante.core.outbox import step
from restante.core.outbox_events import (
    AppendJournalEvent,
    CapacityExceeded,
    Effect,
    EmitEvent,
    Event,
    Leased,
    OutboxEventType,
    ReadAcked,
    Recovered,
    ResetSession,
    StoreDeadLetter,
    TimePassed,
)
from restante.model.errors import DuplicateMessageId, OutboxFull
from restante.model.ids import MessageId, PayloadHash, SessionTag
from restante.model.journal import JournalKind
from restante.model.outbox_entry import OutboxEntry, StoredDeadLetter
from restante.model.states import ENDED, Route, State
from restante.policy.capacity import check_capacity, check_lane_capacity, overflow
from restante.policy.dead_letters import keeps_payload
from restante.policy.pruning import attention_at_ms
from restante.policy.send_order import STRICT_ROUTES, is_unsent
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.chunk_state import ChannelProgress
from restante.runtime.sqlite.outbox.dead_letters import DeadLetterTable
from restante.runtime.sqlite.outbox.delivered_index import SentIndex
from restante.runtime.sqlite.outbox.entry_cache import EntryCache, FiledEntry
from restante.runtime.sqlite.outbox.id_index import IdBlocks
from restante.runtime.sqlite.outbox.new_entry import NewEntry, OutboxEvent
from restante.runtime.sqlite.outbox.ready_queue import ReadyQueue
from restante.runtime.sqlite.outbox.row_codec import arrival_of, entry_of, lasting_columns, state_columns
from restante.runtime.sqlite.outbox.totals import OutboxTotals

SWEEP_PAGE: Final = 1_000
_SQL: Final = load_queries("outbox")
_ADD_BODY: Final = _SQL["add_body"]
_REMOVE_BODY: Final = _SQL["remove_body"]
# By these names in what every message passes: on Python 3.11 a member takes ten times as long to read from its class.
_PENDING: Final = State.PENDING
_DELIVERED: Final = State.DELIVERED
_RELAY: Final = Route.RELAY
_CHANNEL: Final = Route.CHANNEL
_QUEUED: Final = OutboxEventType.QUEUED


class SqliteOutbox:
    """Entries of one client, from acceptance to their end, and what is remembered of them afterwards."""

    def __init__(self, database: Database, journal: Journal, settings: Settings) -> None:
        self._database = database
        self._journal = journal
        self._settings = settings
        self._limits = settings.outbox
        self.changes: list[
            tuple[MessageId, OutboxEventType, str | None, int]
        ] = []  # made a `OutboxEvent` for those who listen
        self._blocks = IdBlocks(database)
        self._totals = OutboxTotals(database, self._blocks)
        self._shelf = EntryCache(database, self._blocks)
        self._lanes = ReadyQueue(database)
        database.on_invalidate(self.changes.clear)
        self.dead_letters = DeadLetterTable(database, settings.dead_letters)
        self.sent = SentIndex(database, journal)
        self.progress = ChannelProgress(database)

    def take_changes(self) -> list[OutboxEvent]:
        """What happened since this was last asked; to be told only after the commit."""
        changes = [OutboxEvent(*each) for each in self.changes]
        self.changes.clear()
        return changes

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
        arrival = arrival_of(entry, self._limits, session_tag=session_tag, sequence=sequence, sealed_hash=sealed_hash)
        self.accept_all([arrival], brought=[entry.message_id], now_ms=now_ms)

    def accept_all(self, arrivals: Sequence[NewEntry], brought: Sequence[MessageId], now_ms: int) -> None:
        """All of them or none. `brought` are the ids that were not drawn just now: somebody may have had one before."""
        if not self._database.in_transaction:
            with self._database.transaction():
                return self.accept_all(arrivals, brought=brought, now_ms=now_ms)
        new_bytes = 0
        for arrival in arrivals:
            new_bytes += arrival[1]
        self._refuse_if_full(len(arrivals), new_bytes)
        if brought and (len(set(brought)) != len(brought) or any(map(self._is_known, brought))):
            raise DuplicateMessageId
        for arrival in arrivals:
            # Until it is filed, this row is its `accepted` fact as well (SPEC 1.4).
            self._database.defer(_ADD_BODY, (self._journal.number_arrival(), *arrival))
            self.changes.append((arrival[0], _QUEUED, None, now_ms))
            if self._totals.arrived(arrival):
                self._totals.flush(now_ms=now_ms)
            if arrival[2] is _RELAY:
                self._evict_overflow(arrival[3], now_ms)
        return None

    def lease_next(self, *, owner: str, now_ms: int) -> OutboxEntry | None:
        """The next entry to try, claimed for `owner`; None when nothing is due."""
        leased = self.lease(owner=owner, routes=tuple(Route), limit=1, now_ms=now_ms)
        return leased[0] if leased else None

    def lease(
        self,
        *,
        owner: str,
        routes: Iterable[Route],
        is_connected: Callable[[Route, str], bool] = lambda _route, _lane: True,
        limit: int,
        now_ms: int,
    ) -> list[OutboxEntry]:
        """Up to `limit` entries of connected lanes in the order of choice, claimed for `owner`.

        What has expired ends first (SPEC 3.3).
        """
        with self._database.transaction():
            # Again until nothing is left: a claim that lapsed may have outwaited its queue time, too.
            while self.sweep(now_ms=now_ms):
                pass
            claim = Leased(owner=owner, until_ms=now_ms + self._limits.lease_ms)
            ways = tuple(routes)
            if self._totals.may_stay_unfiled():
                rows = self._lanes.ready(ways, is_connected, limit, now_ms)
                if rows and len(rows) == limit and self._totals.are_behind(rows[-1]):
                    return [self._claimed(row, claim, now_ms) for row in rows]
            self._totals.flush(now_ms=now_ms)
            rows = self._lanes.ready(ways, is_connected, limit, now_ms)
            return [self._claimed(row, claim, now_ms) for row in rows]

    def apply(self, message_id: MessageId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one step with one message; what has ended and is remembered no more is left alone."""
        if not self._database.in_transaction:
            with self._database.transaction():
                return self.apply(message_id, event, now_ms=now_ms)
        filed = self._find(message_id, now_ms)
        if filed is not None:
            return self._step(filed, event, now_ms)[1]
        letter = self.dead_letters.load(message_id)
        if letter is not None:
            return self._step_dead(letter, event, now_ms)
        if isinstance(event, ReadAcked) and self.sent.mark_read(message_id, now_ms=now_ms):
            self.changes.append((message_id, OutboxEventType.READ, None, now_ms))
        return ()

    def sweep(self, *, now_ms: int) -> int:
        """End what has expired or waited too long, take back what a dead owner held (SPEC 3.5, 3.9).

        How many entries that changed; call again until none, for a page is swept at a time.
        """
        with self._database.transaction():
            self._totals.file_before_a_sweep(now_ms=now_ms)
            while due := self._database.rows(_SQL["to_sweep"], now_ms, SWEEP_PAGE):
                changed = sum(self._look_at(row, now_ms) for row in due)
                if changed:
                    return changed
            return 0

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
            fact = AppendJournalEvent(kind=JournalKind.DISCARDED, code=letter.category)
            self._journal.append_step(letter.entry, fact, now_ms)
            return True

    def replace_payload(self, message_id: MessageId, payload: bytes, *, now_ms: int) -> None:
        """The message was sealed anew: what is sent from now on (SPEC 4.4, E008 and E009)."""
        with self._database.transaction():
            filed = self._find(message_id, now_ms)
            if filed is None:
                return
            self._totals.count(0, len(payload) - filed.size_bytes)
            self._shelf.replace_payload(filed, payload)

    def tell(self, message_id: MessageId, *effects: AppendJournalEvent | EmitEvent, now_ms: int) -> None:
        """A fact that leaves the entry as it is."""
        filed = self._find(message_id, now_ms)
        if filed is not None:
            self._carry_out(filed.entry, effects, now_ms)

    def send_again(self, message_id: MessageId, *, now_ms: int) -> bool:
        """Make a sent entry due now: the same sealed bytes once more. Whether there was one."""
        with self._database.transaction():
            filed = self._find(message_id, now_ms)
            if filed is None or filed.entry.state is not State.SENT:
                return False
            due = filed.entry.but(next_attempt_at_ms=now_ms)
            self._shelf.store(filed, due, False, now_ms)
            return True

    def load(self, message_id: MessageId) -> OutboxEntry | None:
        """The entry with its body, if it is in flight."""
        for (number,) in self._database.rows(_SQL["find_number"], message_id, self._blocks.listed()):
            [row] = self._database.rows(_SQL["numbered_entry"], number)
            return entry_of(row, self._body(row[2]))
        return None

    def entries(self, *, limit: int) -> list[OutboxEntry]:
        """The oldest entries in flight, without their bodies."""
        return [entry_of(row) for row in self._database.run(_SQL["list_entries"], limit=limit)]

    def next_wake_ms(self) -> int | None:
        """When something may be due again; None for an outbox in which nothing waits."""
        [(at_ms,)] = self._database.run(_SQL["next_wake"])
        return None if at_ms is None else int(at_ms)

    def held(self) -> tuple[int, int]:
        """Entries and bytes in flight."""
        [(entries, held_bytes)] = self._database.run(_SQL["held"])
        return entries, held_bytes

    def counts(self) -> dict[State, int]:
        """How many entries are in each state, of those still in flight."""
        return {State(state): count for state, count in self._database.run(_SQL["count_by_state"])}

    def _refuse_if_full(self, new_entries: int, new_bytes: int) -> None:
        entries, held_bytes = self._totals.held()
        check_capacity(
            self._limits,
            held_entries=entries,
            held_bytes=held_bytes,
            new_entries=new_entries,
            new_bytes=new_bytes,
        )

    def _is_known(self, message_id: MessageId) -> bool:
        [(known,)] = self._database.rows(_SQL["is_known"], message_id, self._blocks.listed())
        return bool(known) or self.sent.knows(message_id)

    def _insert(self, entry: OutboxEntry, insertion: int, letter: StoredDeadLetter, now_ms: int) -> None:
        """At the end of its lane; in a strict one it waits while anything unsent stands before it (SPEC 3.4)."""
        behind = entry.route in STRICT_ROUTES and bool(self._lanes.head(entry))
        self._database.rows(
            _SQL["add_entry"],
            insertion,
            entry.message_id,
            letter.body_id,
            letter.size_bytes,
            *lasting_columns(entry, self._limits),
            *state_columns(entry, behind, now_ms),
        )
        self._blocks.added(insertion, insertion)
        self._totals.count(1, letter.size_bytes)
        if entry.route is Route.RELAY:
            self._totals.count_pending(entry.lane, 1)

    def _find(self, message_id: MessageId, now_ms: int) -> FiledEntry | None:
        """The entry, if it is in flight."""
        found = self._shelf.known(message_id) or self._shelf.look_up(message_id)
        if found is not None:
            return found
        self._totals.flush(now_ms=now_ms)
        return self._shelf.look_up(message_id)

    def _claimed(self, row: tuple[Any, ...], claim: Leased, now_ms: int) -> OutboxEntry:
        leased, _ = self._step(self._shelf.place(row[:-2]), claim, now_ms)
        return leased.but(payload=row[-2], sealed_plaintext=row[-1])

    def _look_at(self, row: tuple[Any, ...], now_ms: int) -> bool:
        """Whether time has changed the entry; if not, no sweep need look at it before its next deadline."""
        filed = self._shelf.known(MessageId(row[1])) or self._shelf.place(row)
        before = filed.entry
        after, _ = self._step(filed, TimePassed(), now_ms)
        if after is before:
            self._database.rows(_SQL["store_attention"], attention_at_ms(self._limits, after), after.insertion)
        return after is not before

    def _step(self, filed: FiledEntry, event: Event, now_ms: int) -> tuple[OutboxEntry, tuple[Effect, ...]]:
        before = filed.entry
        after, effects = step(before, event, now_ms=now_ms, settings=self._settings)
        if after is before:
            return after, effects
        is_strict = before.route in STRICT_ROUTES
        if after.state in ENDED:
            self._end(after, effects, filed, now_ms)
        else:
            self._shelf.store(filed, after, is_strict and self._lanes.is_behind(after), now_ms)
        if before.route is _RELAY and (before.state is _PENDING) != (after.state is _PENDING):
            self._totals.count_pending(before.lane, -1 if before.state is _PENDING else 1)
        self._carry_out(after, effects, now_ms)
        if is_strict and is_unsent(before) and not is_unsent(after):
            self._lanes.move_on(after, now_ms)
        return after, effects

    def _end(self, entry: OutboxEntry, effects: tuple[Effect, ...], filed: FiledEntry, now_ms: int) -> None:
        self._shelf.remove(filed)
        self._totals.count(-1, -filed.size_bytes)
        if entry.state is _DELIVERED:
            self._drop_body(entry, filed)
            self.sent.remember(entry, now_ms=now_ms)
            return
        letters = [effect.letter for effect in effects if isinstance(effect, StoreDeadLetter)]
        for letter in letters:
            self.dead_letters.add(letter, body_id=filed.body_id, size_bytes=filed.size_bytes)
        if not any(keeps_payload(letter.category) for letter in letters):
            self._drop_body(entry, filed)

    def _drop_body(self, entry: OutboxEntry, filed: FiledEntry) -> None:
        self._database.defer(_REMOVE_BODY, (filed.body_id,))
        if entry.route is _CHANNEL:
            self.progress.remove(entry.message_id)

    def _step_dead(self, letter: StoredDeadLetter, event: Event, now_ms: int) -> tuple[Effect, ...]:
        after, effects = step(letter.entry, event, now_ms=now_ms, settings=self._settings)
        if after.state is letter.entry.state:
            return effects
        if after.state is State.PENDING:
            self._refuse_if_full(1, letter.size_bytes)
            if after.route is Route.RELAY:
                check_lane_capacity(
                    self._limits, route=after.route, pending=self._totals.pending_in_relay_lane(after.lane)
                )
            self.dead_letters.remove(letter, with_body=False)
            self._insert(after, self._carry_out(after, effects, now_ms), letter, now_ms)
        else:
            self.dead_letters.remove(letter, with_body=True)
            self.sent.remember(after, now_ms=now_ms)
            self._carry_out(after, effects, now_ms)
        return effects

    def _evict_overflow(self, lane: str, now_ms: int) -> None:
        """A relay lane over its limit loses its oldest pending entries, visibly (SPEC 3.6)."""
        pending = self._totals.pending_in_relay_lane(lane)
        surplus = overflow(self._limits, route=Route.RELAY, pending=pending)
        if surplus:
            self._totals.flush(now_ms=now_ms)
            for (message_id,) in self._database.rows(_SQL["oldest_pending"], Route.RELAY, lane, surplus):
                self.apply(MessageId(message_id), CapacityExceeded(), now_ms=now_ms)

    def _carry_out(self, entry: OutboxEntry, effects: tuple[Effect, ...], now_ms: int) -> int:
        """The number of the last fact that was written."""
        number = 0
        for effect in effects:
            if isinstance(effect, AppendJournalEvent):
                number = self._journal.append_step(entry, effect, now_ms)
            elif isinstance(effect, EmitEvent):
                self.changes.append((entry.message_id, effect.notice, effect.code, now_ms))
            elif isinstance(effect, ResetSession):
                self.changes.append((entry.message_id, OutboxEventType.SECURITY, "session_reset", now_ms))
        return number

    def _body(self, body_id: int) -> tuple[bytes, bytes]:
        [(payload, sealed_plaintext)] = self._database.rows(_SQL["load_body"], body_id)
        return payload, sealed_plaintext
