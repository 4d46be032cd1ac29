"""Accepting messages: capacity and ids are checked first, then rows and journal events are written (SPEC 3.2, 3.6)."""

from collections.abc import Callable, Sequence
from typing import Final

from restante.core.outbox_events import CapacityExceeded, Effect, Event, OutboxEventType
from restante.model.errors import DuplicateMessageId, OutboxFull, StoreUnusable
from restante.model.ids import MessageId
from restante.model.journal import EventColumns, JournalKind
from restante.model.states import Route
from restante.policy.capacity import (
    LANE,
    Held,
    OutboxLimits,
    check_capacity,
    check_control_capacity,
    check_share,
    overflow,
)
from restante.policy.pruning import next_deadline_ms
from restante.policy.send_order import is_control_lane
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.entry_cache import EntryCache
from restante.runtime.sqlite.outbox.lanes import Lane, LaneTable
from restante.runtime.sqlite.outbox.new_entry import NewEntry
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS

_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_ADD_BODY: Final = _SQL["add_body"]
_ADD_ENTRY: Final = _SQL["add_entry"]
Apply = Callable[[MessageId, Event, int], tuple[Effect, ...]]
Emit = Callable[[MessageId, OutboxEventType, str | None, int], None]


class Intake:
    """Every method is part of a transaction."""

    def __init__(
        self,
        database: Database,
        journal: Journal,
        lanes: LaneTable,
        cache: EntryCache,
        limits: OutboxLimits,
        *,
        apply: Apply,
        emit: Emit,
        note_deadline: Callable[[int], None],
    ) -> None:
        self._database = database
        self._journal = journal
        self._lanes = lanes
        self._cache = cache
        self._limits = limits
        self._apply = apply
        self._emit = emit
        self._note_deadline = note_deadline

    def accept_all(self, new: Sequence[NewEntry], given: Sequence[MessageId], now_ms: int) -> None:
        """Accept all messages or none; `given` are ids that the caller chose, which may be in use."""
        self._check_capacity(new)
        if given and (len(set(given)) != len(given) or any(map(self._is_known, given))):
            raise DuplicateMessageId
        for one in new:
            self._add(one, now_ms)

    def has_space(self, route: Route, name: str, added: Held) -> bool:
        """Return whether the lane takes these entries beside what it holds."""
        try:
            self._check_lane(route, name, added)
        except OutboxFull:
            return False
        return True

    def _check_capacity(self, new: Sequence[NewEntry]) -> None:
        by_lane: dict[tuple[Route, str], list[int]] = {}
        mail: dict[str | None, list[int]] = {}
        for one in new:
            by_lane.setdefault((one.route, one.lane), []).append(one.size_bytes)
            if not is_control_lane(one.route, one.lane):
                mail.setdefault(one.relay, []).append(one.size_bytes)
        if mail and self._database.is_disk_full():
            raise StoreUnusable("the disk is full: queued mail is still sent, new mail is refused until there is space")
        if mail:
            sizes = [size for added in mail.values() for size in added]
            check_capacity(self._limits, held=self._lanes.held(control=False), new=_held(sizes))
        for (route, name), added in by_lane.items():
            self._check_lane(route, name, _held(added))
        if self._lanes.has_several_relays():
            for relay, added in mail.items():
                if relay is not None:
                    held = self._lanes.held_at_relay(relay)
                    check_share(self._limits, what="relay", name=relay, held=held, new=_held(added))

    def _check_lane(self, route: Route, name: str, added: Held) -> None:
        lane = self._lanes.get(route, name)
        held = _NOTHING if lane is None else Held(lane.entries, lane.size_bytes)
        if is_control_lane(route, name):
            reserve = self._lanes.held(control=True)
            check_control_capacity(self._limits, lane=name, held=reserve, held_in_lane=held, new=added)
        elif route is not Route.UPSTREAM:  # an upstream lane evicts instead
            check_share(self._limits, what=LANE, name=name, held=held, new=added)

    def _is_known(self, message_id: MessageId) -> bool:
        [(known,)] = self._database.rows(_SQL["is_known"], message_id)
        return bool(known)

    def _add(self, new: NewEntry, now_ms: int) -> None:
        lane = self._lanes.get_or_add(new.route, new.lane, relay=new.relay, now_ms=now_ms)
        number = self._journal.append(JournalKind.ACCEPTED, at_ms=new.queued_at_ms, **_accepted_columns(new))
        place = self._lanes.append(
            lane,
            message_id=new.message_id,
            queue_number=number,
            priority=new.priority,
            created_at_ms=new.created_at_ms,
            due_at_ms=new.next_attempt_at_ms,
            now_ms=now_ms,
        )
        self._lanes.count(lane, 1, new.size_bytes)
        self._database.defer(_ADD_BODY, (number, new.payload, new.sealed_plaintext))
        deadline_ms = next_deadline_ms(
            self._limits, route=new.route, queued_at_ms=new.queued_at_ms, expires_at_ms=new.expires_at_ms
        )
        self._database.defer(
            _ADD_ENTRY,
            (
                number,
                new.message_id,
                lane.lane_id,
                place,
                number,
                new.size_bytes,
                new.kind,
                new.priority,
                new.created_at_ms,
                new.ttl_s,
                new.queued_at_ms,
                lane.connected_ms,
                new.expires_at_ms,
                deadline_ms,
                new.next_attempt_at_ms,
            ),
        )
        self._note_deadline(deadline_ms)
        self._cache.add_new(new, queue_number=number, lane_id=lane.lane_id, place=place)
        self._emit(new.message_id, OutboxEventType.QUEUED, None, now_ms)
        if new.route is Route.UPSTREAM:
            self._evict_overflow(lane, now_ms)

    def _evict_overflow(self, lane: Lane, now_ms: int) -> None:
        """Evict the oldest pending entries of an upstream lane that is over its limit, visibly (SPEC 3.6)."""
        pending = self._database.rows(_SQL["oldest_pending"], lane.lane_id)
        surplus = overflow(self._limits, route=lane.route, pending=len(pending))
        for (message_id,) in pending[:surplus]:
            self._apply(MessageId(message_id), CapacityExceeded(), now_ms)


_NOTHING: Final = Held(0, 0)


def _held(sizes: Sequence[int]) -> Held:
    return Held(len(sizes), sum(sizes))


def _accepted_columns(new: NewEntry) -> EventColumns:
    columns: EventColumns = {
        "message_id": new.message_id,
        "size_bytes": new.size_bytes,
        "message_kind": new.kind,
        "priority": new.priority,
        "ttl_s": new.ttl_s,
    }
    if new.payload_hash is not None:  # the caller encrypted it already
        columns |= {"session_tag": new.session_tag, "sequence": new.sequence, "payload_hash": new.payload_hash}
    return columns
