"""The outbox as SPEC has it, in plain dictionaries: what every host of core/outbox must be equal to.

No index, no totals, no shortcuts: each question is answered by looking at every entry.
"""

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

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
    StoreDeadLetter,
    TimePassed,
)
from restante.model.errors import DuplicateMessageId, OutboxFull
from restante.model.ids import MessageId
from restante.model.outbox_entry import DeadLetter, OutboxEntry
from restante.model.states import ENDED, Confirmation, Route, State
from restante.policy.ack_batching import advance
from restante.policy.capacity import check_capacity, check_lane_capacity, eviction_key, overflow
from restante.policy.dead_letters import next_auto_retry_ms
from restante.policy.pruning import attention_at_ms
from restante.policy.send_order import sendable_now
from restante.policy.settings import Settings

SENT_INDEX_MS = 30 * 86_400_000  # SPEC 3.13
Told = tuple[MessageId, OutboxEventType, str | None]


@dataclass(kw_only=True)
class OutboxModel:
    settings: Settings
    alive: dict[MessageId, OutboxEntry] = field(default_factory=dict)
    letters: dict[MessageId, DeadLetter] = field(default_factory=dict)
    sent: dict[MessageId, tuple[Confirmation, int]] = field(default_factory=dict)
    states: dict[MessageId, State] = field(default_factory=dict)
    """Of every message ever accepted, the last one."""
    told: list[Told] = field(default_factory=list)
    swept: list[slice] = field(default_factory=list)
    """Which parts of `told` sweeps have told: in which order one of them changes several entries is not promised."""
    facts: int = 0
    """How many the journal has: an entry's place in the queue is the number of the fact that put it there."""

    def accept_all(self, entries: Sequence[OutboxEntry], *, now_ms: int) -> None:
        self._admit(entries)
        ids = [entry.message_id for entry in entries]
        if len(set(ids)) < len(ids) or set(ids) & (self.alive.keys() | self.letters.keys() | self.sent.keys()):
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
            for entry in sendable_now(self.alive.values(), now_ms)
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
        if isinstance(event, ReadAcked) and message_id in self.sent:
            known, ended_at_ms = self.sent[message_id]
            if advance(known, Confirmation.READ) is not known:
                self.facts += 1
                self.sent[message_id] = (Confirmation.READ, ended_at_ms)
                self.told.append((message_id, OutboxEventType.READ, None))
        return ()

    def sweep(self, *, now_ms: int) -> int:
        """How many entries time has changed."""
        limits = self.settings.outbox
        before = sorted(self.alive.values(), key=lambda entry: (attention_at_ms(limits, entry), entry.insertion))
        began = len(self.told)
        for entry in before:
            self.apply(entry.message_id, TimePassed(), now_ms=now_ms)
        self.swept.append(slice(began, len(self.told)))
        return sum(self.alive.get(entry.message_id) != entry for entry in before)

    def tidy(self, *, now_ms: int) -> None:
        for message_id in [key for key, letter in self.letters.items() if letter.expires_at_ms <= now_ms]:
            self.discard(message_id)
        due = [letter.entry for letter in self.letters.values() if self._is_due(letter, now_ms)]
        for entry in sorted(due, key=lambda entry: entry.created_at_ms):
            with contextlib.suppress(OutboxFull):
                self.apply(entry.message_id, Recovered(by_itself=True), now_ms=now_ms)
        self.sent = {key: kept for key, kept in self.sent.items() if kept[1] > now_ms - SENT_INDEX_MS}

    def discard(self, message_id: MessageId) -> bool:
        known = self.letters.pop(message_id, None) is not None
        self.facts += known
        return known

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
        self.alive[entry.message_id] = replace(entry, insertion=self.facts)
        self.states[entry.message_id] = entry.state

    def _evict_overflow(self, newest: OutboxEntry, now_ms: int) -> None:
        lane = self._pending_beside(newest)
        surplus = overflow(self.settings.outbox, route=newest.route, pending=len(lane))
        unsent = [entry for entry in lane if not entry.was_sent]
        for entry in sorted(unsent, key=eviction_key)[:surplus]:
            self.apply(entry.message_id, CapacityExceeded(), now_ms=now_ms)

    def _admit(self, entries: Sequence[OutboxEntry]) -> None:
        check_capacity(
            self.settings.outbox,
            held_entries=len(self.alive),
            held_bytes=sum(len(entry.payload) for entry in self.alive.values()),
            new_entries=len(entries),
            new_bytes=sum(len(entry.payload) for entry in entries),
        )

    def _pending_beside(self, entry: OutboxEntry) -> list[OutboxEntry]:
        lane = (entry.route, entry.lane, State.PENDING)
        return [other for other in self.alive.values() if (other.route, other.lane, other.state) == lane]

    def _step(self, before: OutboxEntry, event: Event, now_ms: int) -> tuple[Effect, ...]:
        after, effects = step(before, event, now_ms=now_ms, settings=self.settings)
        if after == before:
            return effects
        if (before.state, after.state) == (State.DEAD, State.PENDING):
            self._admit([after])
            check_lane_capacity(self.settings.outbox, route=after.route, pending=len(self._pending_beside(after)))
        message_id = before.message_id
        self.alive.pop(message_id, None)
        self.letters.pop(message_id, None)
        self._carry_out(message_id, effects)
        if after.state in ENDED:
            self.states[message_id] = after.state
        elif before.state is State.DEAD:
            self._queue(after)
        else:
            self.alive[message_id] = after
            self.states[message_id] = after.state
        if after.state is State.DELIVERED:
            self.sent[message_id] = (after.confirmation, now_ms)
        return effects

    def _carry_out(self, message_id: MessageId, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AppendJournalEvent):
                self.facts += 1
            elif isinstance(effect, StoreDeadLetter):
                self.letters[message_id] = effect.letter
            elif isinstance(effect, EmitEvent):
                self.told.append((message_id, effect.notice, effect.code))
