"""Which outbox entries may leave now, in which order, and how long they may wait (SPEC 2.2, 3.3, 3.4, 3.5).

The order is stated here only. A store hands over the unsent entries of a lane in the order of acceptance and leases
what `leasable` returns; it chooses between lanes by `choice_key`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State

HOUR_MS: Final = 3_600_000

QUEUE_TIME_MS: Final[Mapping[Priority, int]] = MappingProxyType(
    {Priority.HIGH: HOUR_MS, Priority.NORMAL: 24 * HOUR_MS, Priority.LOW: 72 * HOUR_MS}
)
"""The longest an entry may wait unsent while its lane is connected (SPEC 2.2)."""

MAIL_ROUTES: Final = frozenset({Route.MESH, Route.RELAY})
"""Routes that carry mail: their lanes are recipients, are pipelined and never evict (SPEC 1.8, 3.4)."""

WINDOW: Final = 256
"""SPEC 3.4: no entry is leased that is this many places behind the oldest unsent one of its lane, and no more than this
many of a lane are being stored again. So few numbers are given to what is not stored, and a gap of numbers that
receipts leave is never wider than a recipient can read across (SPEC 9.4)."""

MAX_LEASE_MS: Final = 600_000
"""The longest lease that configuration allows. One that ends later than that from now shows that the clock jumped."""

CONTROL_PREFIX: Final = "control:"
_PENDING: Final = State.PENDING
_SENDING: Final = State.SENDING


def lane_for(route: Route, lane: str, kind: Kind) -> str:
    """Return the lane of a message: control messages have one of their own per recipient (SPEC 3.4)."""
    if kind is Kind.CONTROL and route in MAIL_ROUTES and not lane.startswith(CONTROL_PREFIX):
        return CONTROL_PREFIX + lane
    return lane


def is_control_lane(route: Route, lane: str) -> bool:
    return route in MAIL_ROUTES and lane.startswith(CONTROL_PREFIX)


def lanes_of_recipient(route: Route, lane: str) -> tuple[str, ...]:
    """Return the lanes that lead to the same recipient, server or chat as `lane`."""
    if route not in MAIL_ROUTES:
        return (lane,)
    recipient = lane.removeprefix(CONTROL_PREFIX)
    return (recipient, CONTROL_PREFIX + recipient)


def has_exceeded_queue_time(*, kind: Kind, priority: Priority, was_sent: bool, connected_ms: int) -> bool:
    """Return whether an entry has waited too long after `connected_ms` unsent on a connected lane (SPEC 2.2).

    Control messages wait until they expire.
    """
    return not was_sent and kind is not Kind.CONTROL and connected_ms >= QUEUE_TIME_MS[priority]


class Choice(NamedTuple):
    """Sorts ready entries of different lanes: higher priority first, then older, then accepted first (SPEC 3.3)."""

    negative_priority: int
    created_at_ms: int
    queue_number: int


def choice_key(*, priority: int, created_at_ms: int, queue_number: int) -> Choice:
    return Choice(-priority, created_at_ms, queue_number)


def is_due(next_attempt_at_ms: int, *, now_ms: int, longest_wait_ms: int) -> bool:
    """Return whether a wait is over. One longer than the longest allowed shows that the clock jumped (SPEC 3.5)."""
    return next_attempt_at_ms <= now_ms or next_attempt_at_ms > now_ms + longest_wait_ms


def is_abandoned(entry: OutboxEntry, now_ms: int, *, dead_owner: str | None = None) -> bool:
    """Return whether the lease of a sending entry is over, so that any drain may take the entry (SPEC 3.5)."""
    if entry.state is not State.SENDING:
        return False
    if entry.lease is None or entry.lease.owner == dead_owner:
        return True
    return is_due(entry.lease.until_ms, now_ms=now_ms, longest_wait_ms=MAX_LEASE_MS)


def is_unsent(entry: OutboxEntry) -> bool:
    """Return whether no attempt has succeeded yet, so that the entry has its place in its lane."""
    return entry.state in (State.PENDING, State.SENDING) and not entry.was_sent


class InLane(Protocol):
    """What the order in a lane depends on."""

    @property
    def place(self) -> int: ...
    @property
    def state(self) -> State: ...
    @property
    def next_attempt_at_ms(self) -> int: ...


Item = TypeVar("Item", bound=InLane)


def next_to_leave(route: Route, unsent: Sequence[Item]) -> Item | None:
    """Return the entry that leaves its lane next, now or after its wait; None while the lane allows none.

    `unsent` are the unsent entries of the lane in the order of acceptance, at least those within `WINDOW` places.
    """
    if not unsent or (route not in MAIL_ROUTES and unsent[0].state is _SENDING):
        return None
    end = unsent[0].place + (WINDOW if route in MAIL_ROUTES else 1)
    return next((item for item in unsent if item.state is _PENDING and item.place < end), None)


def leasable(route: Route, unsent: Sequence[Item], *, now_ms: int, longest_wait_ms: int) -> list[Item]:
    """Return the entries of one lane that may be leased now, in order (SPEC 3.4).

    A pipelined lane leases a run; the first entry that waits ends it. Other lanes lease their oldest entry only.
    """
    run: list[Item] = []
    if not unsent or (route not in MAIL_ROUTES and unsent[0].state is _SENDING):
        return run
    end = unsent[0].place + (WINDOW if route in MAIL_ROUTES else 1)
    for item in unsent:
        if item.place >= end:
            break
        if item.state is _PENDING:
            if not is_due(item.next_attempt_at_ms, now_ms=now_ms, longest_wait_ms=longest_wait_ms):
                break
            run.append(item)
    return run


def sendable_now(
    entries: Iterable[OutboxEntry], *, now_ms: int, longest_wait_ms: Mapping[Route, int], longest_stored_ms: int
) -> list[OutboxEntry]:
    """Return all entries that may leave now, in the order of choice; for models and tests, which hold them all.

    Lanes follow each other by the entry that leaves them next. An entry that was stored before leaves again by itself.
    """
    lanes: dict[tuple[Route, str], list[OutboxEntry]] = {}
    again: Counter[tuple[Route, str]] = Counter()
    groups: list[tuple[Choice, list[OutboxEntry]]] = []
    entries = list(entries)
    for entry in entries:
        again[entry.route, entry.lane] += entry.was_sent and entry.state is State.SENDING
    for entry in sorted(entries, key=lambda one: one.queue_number):
        if is_unsent(entry):
            lanes.setdefault((entry.route, entry.lane), []).append(entry)
        elif entry.state is not State.SENDING:
            longest_ms = longest_stored_ms if entry.state is State.SENT else longest_wait_ms[entry.route]
            is_ready = is_due(entry.next_attempt_at_ms, now_ms=now_ms, longest_wait_ms=longest_ms)
            if is_ready and again[entry.route, entry.lane] < WINDOW:
                again[entry.route, entry.lane] += 1
                groups.append((_choice_of(entry), [entry]))
    for (route, _), unsent in lanes.items():
        run = leasable(route, unsent, now_ms=now_ms, longest_wait_ms=longest_wait_ms[route])
        if run:
            groups.append((_choice_of(run[0]), run))
    return [entry for _, run in sorted(groups, key=lambda group: group[0]) for entry in run]


def _choice_of(entry: OutboxEntry) -> Choice:
    return choice_key(priority=entry.priority, created_at_ms=entry.created_at_ms, queue_number=entry.queue_number)
