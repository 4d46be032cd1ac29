"""The lanes of an outbox: what each holds, and when the next entry may leave it (SPEC 3.4, 3.6).

All lanes, and the first unsent entries of each, are in memory while no other connection writes to the file. Changed
lanes are written once a transaction. The rules are in policy/send_order and policy/capacity.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.capacity import Held
from restante.policy.send_order import (
    MAIL_ROUTES,
    WINDOW,
    Choice,
    choice_key,
    is_control_lane,
    is_unsent,
    lanes_of_recipient,
    next_to_leave,
)
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS, STATES

_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_STORE_LANE: Final = _SQL["store_lane"]
KEPT: Final = 2 * WINDOW
"""Unsent entries of a lane that are kept in memory: the window, and as many as may move into it."""


class QueuedItem(NamedTuple):
    """What the order in a lane depends on, of one unsent entry."""

    place: int
    state: State
    next_attempt_at_ms: int
    priority: int
    created_at_ms: int
    queue_number: int
    message_id: MessageId


@dataclass(slots=True)
class _Unsent:
    """The first unsent entries of a lane by queue number; `is_whole` if there are no others."""

    items: dict[int, QueuedItem] = field(default_factory=dict)
    is_whole: bool = True

    def append(self, item: QueuedItem) -> None:
        self.is_whole = self.is_whole and len(self.items) < KEPT
        if self.is_whole:
            self.items[item.queue_number] = item

    def change(self, entry: OutboxEntry) -> None:
        item = self.items.get(entry.queue_number)
        if item is None:
            return
        if is_unsent(entry):
            self.items[entry.queue_number] = item._replace(
                state=entry.state, next_attempt_at_ms=entry.next_attempt_at_ms
            )
        else:
            del self.items[entry.queue_number]


@dataclass(slots=True)
class Lane:
    """One row of table `lane`; its comment there says what the fields mean. `unsent` is None until it was read."""

    lane_id: int
    route: Route
    name: str
    relay: str | None
    next_place: int
    entries: int
    size_bytes: int
    dead: int
    connected_ms: int
    checked_at_ms: int
    waits_until_ms: int
    first_place: int | None
    due_at_ms: int | None
    priority: int | None
    created_at_ms: int | None
    queue_number: int | None
    unsent: _Unsent | None = None

    @property
    def choice(self) -> Choice:
        """Return the place of the lane in the order of choice; only while `due_at_ms` is set."""
        return choice_key(
            priority=self.priority or 0, created_at_ms=self.created_at_ms or 0, queue_number=self.queue_number or 0
        )

    @property
    def is_control(self) -> bool:
        return is_control_lane(self.route, self.name)

    def set_next(self, item: QueuedItem | None) -> None:
        """Make `item` the entry that leaves next."""
        self.due_at_ms, self.priority, self.created_at_ms, self.queue_number = (
            (None, None, None, None)
            if item is None
            else (item.next_attempt_at_ms, item.priority, item.created_at_ms, item.queue_number)
        )


class LaneTable:
    """Every method is part of a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes: dict[tuple[Route, str], Lane] | None = None
        self._by_id: dict[int, Lane] = {}
        self._with_next: dict[int, Lane] = {}
        self._held: dict[bool, Held] = {}
        self._held_at_relay: dict[str, Held] = {}
        self._stale: dict[int, Lane] = {}
        self._changed: dict[int, Lane] = {}
        database.on_invalidate(self._invalidate)
        database.before_commit(self._write_changed)

    def get(self, route: Route, name: str) -> Lane | None:
        return self._all().get((route, name))

    def get_or_add(self, route: Route, name: str, *, relay: str | None, now_ms: int) -> Lane:
        lanes = self._all()
        lane = lanes.get((route, name))
        if lane is None:
            self._database.rows(_SQL["add_lane"], route, name, relay, now_ms)
            lane_id = self._database.last_insert()
            lane = Lane(lane_id, route, name, relay, 0, 0, 0, 0, 0, now_ms, 0, None, None, None, None, None, _Unsent())
            lanes[route, name] = self._by_id[lane_id] = lane
        elif relay is not None and lane.relay != relay:
            self._add_to_totals(lane, -lane.entries, -lane.size_bytes)
            lane.relay = relay
            self._add_to_totals(lane, lane.entries, lane.size_bytes)
            self._changed[lane.lane_id] = lane
        return lane

    def by_id(self, lane_id: int) -> Lane:
        self._all()
        return self._by_id[lane_id]

    def of_recipient(self, lane: Lane) -> list[Lane]:
        """Return the lanes that lead to the same recipient, `lane` included."""
        found = (self.get(lane.route, name) for name in lanes_of_recipient(lane.route, lane.name))
        return [one for one in found if one is not None]

    def held(self, *, control: bool) -> Held:
        """Return what all mail, or all control messages, take."""
        self._all()
        return self._held[control]

    def held_for(self, name: str) -> int:
        """Return how many messages the lanes of one recipient hold, over all routes of mail."""
        return sum(lane.entries for route in MAIL_ROUTES if (lane := self.get(route, name)) is not None)

    def route_of(self, name: str, otherwise: Route) -> Route:
        """Return the route under which one recipient's mail is queued; `otherwise` if none is.

        A recipient has one lane whatever its places (SPEC 3.14): who moves from a relay to the mesh keeps it until all
        of its mail is received.
        """
        held = (route for route in MAIL_ROUTES if (lane := self.get(route, name)) is not None and lane.entries)
        return next(held, otherwise)

    def held_at_relay(self, relay: str) -> Held:
        self._all()
        return self._held_at_relay.get(relay, Held(0, 0))

    def has_several_relays(self) -> bool:
        self._all()
        return len(self._held_at_relay) > 1

    def count(self, lane: Lane, entries: int, size_bytes: int) -> None:
        """Count entries and bytes that the lane takes, or gives back."""
        lane.entries += entries
        lane.size_bytes += size_bytes
        self._add_to_totals(lane, entries, size_bytes)
        self._changed[lane.lane_id] = lane

    def _add_to_totals(self, lane: Lane, entries: int, size_bytes: int) -> None:
        control = lane.is_control
        held = self._held[control]
        self._held[control] = Held(held.entries + entries, held.size_bytes + size_bytes)
        if lane.relay is not None and not control:
            held = self._held_at_relay.get(lane.relay, Held(0, 0))
            self._held_at_relay[lane.relay] = Held(held.entries + entries, held.size_bytes + size_bytes)

    def count_dead(self, lane: Lane, letters: int) -> None:
        lane.dead += letters
        self._changed[lane.lane_id] = lane

    def append(
        self,
        lane: Lane,
        *,
        message_id: MessageId,
        queue_number: int,
        priority: int,
        created_at_ms: int,
        due_at_ms: int,
        now_ms: int,
    ) -> int:
        """Return the place of a new entry at the end of the lane."""
        self._changed[lane.lane_id] = lane
        place = lane.next_place
        lane.next_place += 1
        lane.waits_until_ms = max(lane.waits_until_ms, due_at_ms)
        item = QueuedItem(place, State.PENDING, due_at_ms, priority, created_at_ms, queue_number, message_id)
        if lane.unsent is not None:
            lane.unsent.append(item)
        if lane.lane_id in self._stale:
            return place
        if lane.first_place is None:
            lane.first_place = place
            lane.checked_at_ms = now_ms  # its clock was not advanced while it was empty
            is_next = True
        else:
            is_next = lane.due_at_ms is None and lane.route in MAIL_ROUTES and place < lane.first_place + WINDOW
        if is_next:
            self._set_next(lane, item)
        return place

    def change(self, lane: Lane, entry: OutboxEntry) -> None:
        """An unsent entry of the lane changed: what leaves next is found out when it is needed."""
        if lane.unsent is not None:
            lane.unsent.change(entry)
        self._stale[lane.lane_id] = self._changed[lane.lane_id] = lane

    def mark_changed(self, lane: Lane) -> None:
        self._changed[lane.lane_id] = lane

    def unsent(self, lane: Lane) -> list[QueuedItem]:
        """Return the unsent entries that the order in the lane depends on."""
        known = lane.unsent
        if known is None or (len(known.items) < WINDOW and not known.is_whole):
            rows = self._database.rows(_SQL["unsent"], lane.lane_id, KEPT)
            items = (QueuedItem(row[0], STATES[row[1]], *row[2:]) for row in rows)
            known = lane.unsent = _Unsent({item.queue_number: item for item in items}, is_whole=len(rows) < KEPT)
        return list(islice(known.items.values(), WINDOW if lane.route in MAIL_ROUTES else 1))

    def set_unsent(self, lane: Lane, unsent: Sequence[QueuedItem]) -> None:
        """Store what follows from the unsent entries as they are now."""
        lane.first_place = unsent[0].place if unsent else None
        self._set_next(lane, next_to_leave(lane.route, unsent))
        self._stale.pop(lane.lane_id, None)
        self._changed[lane.lane_id] = lane

    def with_next(self, routes: Collection[Route]) -> list[Lane]:
        """Return the lanes that an entry may leave, now or later."""
        self._all()
        self.refresh()
        return [lane for lane in self._with_next.values() if lane.route in routes]

    def is_due(self, *, now_ms: int) -> bool:
        """Return whether an entry may leave now."""
        dues = (lane.due_at_ms for lane in self.with_next(tuple(Route)))
        return any(due_ms is not None and due_ms <= now_ms for due_ms in dues)

    @property
    def has_next(self) -> bool:
        """Whether `with_next` may return a lane."""
        return self._lanes is None or bool(self._with_next or self._stale)

    def with_unsent(self) -> list[Lane]:
        self.refresh()
        return [lane for lane in self._all().values() if lane.first_place is not None]

    def refresh(self) -> None:
        while self._stale:
            _, lane = self._stale.popitem()
            self.set_unsent(lane, self.unsent(lane))

    def _all(self) -> dict[tuple[Route, str], Lane]:
        if self._lanes is None:
            rows = self._database.rows(_SQL["lanes"])
            lanes = [_lane_of(row) for row in rows]
            self._lanes = {(lane.route, lane.name): lane for lane in lanes}
            self._by_id = {lane.lane_id: lane for lane in lanes}
            self._held = {True: Held(0, 0), False: Held(0, 0)}
            self._held_at_relay = {}
            for lane in lanes:
                self._add_to_totals(lane, lane.entries, lane.size_bytes)
                if lane.due_at_ms is not None:
                    self._with_next[lane.lane_id] = lane
        return self._lanes

    def _set_next(self, lane: Lane, item: QueuedItem | None) -> None:
        lane.set_next(item)
        if item is None:
            self._with_next.pop(lane.lane_id, None)
        else:
            self._with_next[lane.lane_id] = lane

    def _write_changed(self) -> None:
        self.refresh()
        for lane in self._changed.values():
            self._database.defer(
                _STORE_LANE,
                (
                    lane.relay,
                    lane.next_place,
                    lane.entries,
                    lane.size_bytes,
                    lane.dead,
                    lane.connected_ms,
                    lane.checked_at_ms,
                    lane.waits_until_ms,
                    lane.first_place,
                    lane.due_at_ms,
                    lane.priority,
                    lane.created_at_ms,
                    lane.queue_number,
                    lane.lane_id,
                ),
            )
        self._changed.clear()

    def _invalidate(self) -> None:
        self._lanes = None
        self._by_id.clear()
        self._with_next.clear()
        self._stale.clear()
        self._changed.clear()


def _lane_of(row: tuple[Any, ...]) -> Lane:
    lane_id, route, *rest = row
    return Lane(lane_id, Route(route), *rest)
