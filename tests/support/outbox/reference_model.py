"""The outbox as SPEC has it, in plain dictionaries: what every host of core/outbox must be equal to.

No index, no totals, no shortcuts: each question is answered by looking at every entry.
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from restante.core.outbox import schedule_of, step
from restante.core.outbox_events import (
    AppendJournalEvent,
    CapacityExceeded,
    Effect,
    EmitEvent,
    Event,
    Leased,
    OutboxEventType,
    ReadAcked,
    RecipientReached,
    Recovered,
    StoreDeadLetter,
    TimePassed,
    TransmitSucceeded,
)
from restante.model.errors import DuplicateMessageId, OutboxFull
from restante.model.ids import MessageId
from restante.model.outbox_entry import DeadLetter, OutboxEntry
from restante.model.states import ENDED, Confirmation, DeadCategory, Route, State
from restante.policy.ack_batching import advance
from restante.policy.capacity import (
    Held,
    check_capacity,
    check_control_capacity,
    check_share,
    check_upstream_recovery,
    eviction_key,
    overflow,
)
from restante.policy.completion import LONGEST_STORED_WAIT_MS
from restante.policy.dead_letters import next_auto_retry_ms
from restante.policy.pruning import next_deadline_ms
from restante.policy.retry import longest_wait_ms
from restante.policy.send_order import is_control_lane, lanes_of_recipient, sendable_now
from restante.policy.settings import Settings

SENT_INDEX_MS = 30 * 86_400_000  # SPEC 3.13
Told = tuple[MessageId, OutboxEventType, str | None]


@dataclass(kw_only=True)
class OutboxModel:
    settings: Settings
    alive: dict[MessageId, OutboxEntry] = field(default_factory=dict)
    letters: dict[MessageId, DeadLetter] = field(default_factory=dict)
    ended: dict[MessageId, tuple[State, Confirmation, int]] = field(default_factory=dict)
    """What ended in the last 30 days and is no dead letter."""
    states: dict[MessageId, State] = field(default_factory=dict)
    """Of every message ever accepted, the last one."""
    told: list[Told] = field(default_factory=list)
    swept: list[slice] = field(default_factory=list)
    """Which parts of `told` sweeps have told: in which order one of them changes several entries is not promised."""
    facts: int = 0
    """How many events the journal has: an entry's queue number is the number of the event that queued it."""
    places: Counter[tuple[Route, str]] = field(default_factory=Counter)
    """How many entries each lane has had."""

    def accept_all(self, entries: Sequence[OutboxEntry], *, now_ms: int) -> None:
        self._check_capacity(entries)
        ids = [entry.message_id for entry in entries]
        if len(set(ids)) < len(ids) or set(ids) & (self.alive.keys() | self.letters.keys() | self.ended.keys()):
            raise DuplicateMessageId
        for entry in entries:
            self.facts += 1
            self._queue(entry)
            self.told.append((entry.message_id, OutboxEventType.QUEUED, None))
            self._evict_overflow(entry, now_ms)

    def lease(
        self,
        *,
        owner: str,
        routes: Collection[Route],
        lanes_down: Collection[tuple[Route, str]],
        limit: int,
        now_ms: int,
    ) -> list[OutboxEntry]:
        began = len(self.told)
        while self.sweep(now_ms=now_ms):
            pass
        self.swept.append(slice(began, len(self.told)))
        free = [
            entry
            for entry in sendable_now(
                self.alive.values(),
                now_ms=now_ms,
                longest_wait_ms={route: longest_wait_ms(schedule_of(route, self.settings)) for route in Route},
                longest_stored_ms=LONGEST_STORED_WAIT_MS,
            )
            if entry.route in routes and (entry.route, entry.lane) not in lanes_down
        ]
        claim = Leased(owner=owner, until_ms=now_ms + self.settings.outbox.lease_ms)
        for entry in free[:limit]:
            self.apply(entry.message_id, claim, now_ms=now_ms)
        return [self.alive[entry.message_id] for entry in free[:limit]]

    def apply(self, message_id: MessageId, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        if message_id in self.alive:
            return self._step(self.alive[message_id], event, now_ms)
        if message_id in self.letters:
            return self._step(self.letters[message_id].entry, event, now_ms)
        if isinstance(event, ReadAcked) and message_id in self.ended:
            state, known, ended_at_ms = self.ended[message_id]
            if state is State.DELIVERED and advance(known, Confirmation.READ) is not known:
                self.facts += 1
                self.ended[message_id] = (state, Confirmation.READ, ended_at_ms)
                self.told.append((message_id, OutboxEventType.READ, None))
        return ()

    def sweep(self, *, now_ms: int) -> int:
        """How many entries time has changed."""
        before = sorted(self.alive.values(), key=self._deadline_of)
        began = len(self.told)
        for entry in before:
            self.apply(entry.message_id, TimePassed(), now_ms=now_ms)
        self.swept.append(slice(began, len(self.told)))
        return sum(self.alive.get(entry.message_id) != entry for entry in before)

    def run_maintenance(self, *, now_ms: int) -> None:
        for message_id in [key for key, letter in self.letters.items() if letter.expires_at_ms <= now_ms]:
            self.discard(message_id)
        due = [letter.entry for letter in self.letters.values() if self._is_due(letter, now_ms)]
        for entry in sorted(due, key=lambda entry: entry.created_at_ms):
            with contextlib.suppress(OutboxFull):
                self.apply(entry.message_id, Recovered(is_automatic=True), now_ms=now_ms)
        self.ended = {key: kept for key, kept in self.ended.items() if kept[2] > now_ms - SENT_INDEX_MS}

    def discard(self, message_id: MessageId) -> bool:
        letter = self.letters.pop(message_id, None)
        if letter is None:
            return False
        self.facts += 1
        self.ended[message_id] = (letter.entry.state, letter.entry.confirmation, letter.moved_at_ms)
        return True

    def _deadline_of(self, entry: OutboxEntry) -> tuple[int, int]:
        deadline_ms = next_deadline_ms(
            self.settings.outbox,
            route=entry.route,
            queued_at_ms=entry.queued_at_ms,
            expires_at_ms=entry.expires_at_ms,
        )
        return (deadline_ms, entry.queue_number)

    def _is_due(self, letter: DeadLetter, now_ms: int) -> bool:
        at_ms = next_auto_retry_ms(
            self.settings.dead_letters,
            category=letter.category,
            moved_at_ms=letter.moved_at_ms,
            last_retry_at_ms=None,
            letter_expires_at_ms=letter.expires_at_ms,
            message_expires_at_ms=letter.entry.expires_at_ms,
        )
        return at_ms is not None and at_ms <= now_ms < letter.entry.expires_at_ms

    def _queue(self, entry: OutboxEntry) -> None:
        place = self.places[entry.route, entry.lane]
        self.places[entry.route, entry.lane] += 1
        self.alive[entry.message_id] = entry._replace(queue_number=self.facts, place=place)
        self.states[entry.message_id] = entry.state

    def _evict_overflow(self, newest: OutboxEntry, now_ms: int) -> None:
        lane = self._pending_beside(newest)
        surplus = overflow(self.settings.outbox, route=newest.route, pending=len(lane))
        for entry in sorted(lane, key=eviction_key)[:surplus]:
            self.apply(entry.message_id, CapacityExceeded(), now_ms=now_ms)

    def _held(self) -> list[OutboxEntry]:
        """SPEC 3.6, 5.3: what is in flight, and dead letters with a payload."""
        whole = (letter for letter in self.letters.values() if letter.category is not DeadCategory.EXPIRED)
        return [*self.alive.values(), *(letter.entry for letter in whole)]

    def held(self) -> Held:
        return _sum(one for one in self._held() if not is_control_lane(one.route, one.lane))

    def _check_capacity(self, entries: Sequence[OutboxEntry]) -> None:
        limits, held = self.settings.outbox, self._held()
        mail = [one for one in entries if not is_control_lane(one.route, one.lane)]
        if mail:
            check_capacity(limits, held=self.held(), new=_sum(mail))
        for route, name in dict.fromkeys((one.route, one.lane) for one in entries):
            new = _sum(one for one in entries if (one.route, one.lane) == (route, name))
            in_lane = _sum(one for one in held if (one.route, one.lane) == (route, name))
            if is_control_lane(route, name):
                reserve = _sum(one for one in held if is_control_lane(one.route, one.lane))
                check_control_capacity(limits, lane=name, held=reserve, held_in_lane=in_lane, new=new)
            elif route is not Route.UPSTREAM:
                check_share(limits, what="lane", name=name, held=in_lane, new=new)

    def _pending_beside(self, entry: OutboxEntry) -> list[OutboxEntry]:
        lane = (entry.route, entry.lane, State.PENDING, 0)
        return [one for one in self.alive.values() if (one.route, one.lane, one.state, one.times_stored) == lane]

    def _step(self, before: OutboxEntry, event: Event, now_ms: int) -> tuple[Effect, ...]:
        after, effects = step(before, event, now_ms=now_ms, settings=self.settings)
        if after == before:
            return effects
        if (before.state, after.state) == (State.DEAD, State.PENDING) and after.route is Route.UPSTREAM:
            pending = len(self._pending_beside(after))
            check_upstream_recovery(self.settings.outbox, lane=after.lane, pending=pending)
        message_id = before.message_id
        self.alive.pop(message_id, None)
        self.letters.pop(message_id, None)
        self._carry_out(message_id, effects)
        if after.state in ENDED:
            self.states[message_id] = after.state
            if message_id not in self.letters:
                self.ended[message_id] = (after.state, after.confirmation, now_ms)
        elif before.state is State.DEAD:
            self._queue(after)
        else:
            self.alive[message_id] = after
            self.states[message_id] = after.state
        if isinstance(event, TransmitSucceeded):
            self._follow_up_stored(before, now_ms)
        return effects

    def _follow_up_stored(self, stored: OutboxEntry, now_ms: int) -> None:
        """Waits for a recipient end, and its dead letters are retried, when mail to it is stored (SPEC 3.4, 5.3)."""
        for name in lanes_of_recipient(stored.route, stored.lane):
            for entry in list(self.alive.values()):
                waits = entry.state is State.PENDING and not entry.was_sent
                if waits and (entry.route, entry.lane) == (stored.route, name):
                    self.apply(entry.message_id, RecipientReached(), now_ms=now_ms)
            due = [
                letter.entry
                for letter in self.letters.values()
                if (letter.entry.route, letter.entry.lane) == (stored.route, name)
                and letter.category is DeadCategory.RETRIABLE
                and letter.moved_at_ms < now_ms < letter.entry.expires_at_ms
            ]
            for entry in sorted(due, key=lambda entry: entry.created_at_ms):
                with contextlib.suppress(OutboxFull):
                    self.apply(entry.message_id, Recovered(is_automatic=True), now_ms=now_ms)

    def _carry_out(self, message_id: MessageId, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendJournalEvent):
                self.facts += 1
            elif isinstance(effect, StoreDeadLetter):
                self.letters[message_id] = effect.letter
            elif isinstance(effect, EmitEvent):
                self.told.append((message_id, effect.notice, effect.code))


def _sum(entries: Iterable[OutboxEntry]) -> Held:
    sizes = [len(entry.payload) for entry in entries]
    return Held(len(sizes), sum(sizes))
