"""Which keys a node offers to their five closest nodes, and when (SPEC 7.9, decision 0038).

A sender that none of the five answers stores with the next closest, and a recipient reads the five. So a node that took
mail for a key of which it is not among the five names that key to each of them in a HAVE. They fetch what they lack, as
in every exchange. The node repeats an offer that got no answer after growing pauses, until the round after the bucket's
end.

Everything here is in memory only: after a restart that round is enough.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from restante.core.transitions import Table, check_phase, legal_phases
from restante.model.ids import InboxKey, NodeId
from restante.policy.mesh.repair import OfferPauses

MOST_KEYS: Final = 1_024
"""Keys that wait, of all nodes. One more takes the place of the oldest, which was offered before unless as many keys
came within seconds."""
MOST_AT_ONCE: Final = 64
"""Keys of one offer. The others follow after the pause, so strangers cannot make a node send more."""
MOST_ANSWERED: Final = 3
"""Offers of one key that a node answers without holding all of it. Its owner may have deleted it there."""


class Phase(StrEnum):
    """Of one of the five."""

    IDLE = "idle"
    """No key waits for it."""
    WAITING = "waiting"
    OFFERING = "offering"


class Stored(NamedTuple):
    """A sender's mail lies under this key now, and the node is among the five. The round takes over at `until_ms`."""

    key: InboxKey
    until_ms: int


class Turn(NamedTuple):
    """The pause is over."""


class Answered(NamedTuple):
    """The node said what it holds under an offered key."""

    key: InboxKey
    holds_all: bool


class Ended(NamedTuple):
    """The offer is over; whether the node answered."""

    was_answered: bool


class GivenUp(NamedTuple):
    """The round takes over, or another key needs the place."""

    key: InboxKey


Event = Stored | Turn | Answered | Ended | GivenUp


class Offer(NamedTuple):
    """Name these keys to the node, report `Answered` for each that it answers, then `Ended`."""

    node: NodeId
    keys: tuple[InboxKey, ...]


_QUIET: Final = frozenset({Phase.IDLE, Phase.WAITING})
_WAITING: Final = frozenset({Phase.WAITING})
_OFFERING: Final = frozenset({Phase.OFFERING})
TABLE: Final[Table[Phase]] = {
    Phase.IDLE: {Stored: _WAITING},
    Phase.WAITING: {Stored: _WAITING, Turn: _OFFERING, GivenUp: _QUIET},
    # A key may be given up while it is offered; then its answer changes nothing.
    Phase.OFFERING: {**dict.fromkeys((Stored, Answered, GivenUp), _OFFERING), Ended: _QUIET},
}


@dataclass(slots=True)
class _Closest:
    """One of the five of some keys."""

    not_before_ms: int
    pause_ms: int
    keys: dict[InboxKey, int] = field(default_factory=dict)
    """How often it answered without holding the mail. The key that was offered last comes last."""
    is_offering: bool = False
    lacked_some: bool = False


class Offers:
    """Times are of a clock that never jumps, in milliseconds."""

    __slots__ = ("_nodes", "_pauses", "_until_ms")

    def __init__(self, pauses: OfferPauses) -> None:
        self._pauses = pauses
        self._nodes: dict[NodeId, _Closest] = {}
        self._until_ms: dict[InboxKey, int] = {}
        """Keys that wait for some node, the oldest first."""

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._until_ms)

    def phase_of(self, node: NodeId) -> Phase:
        closest = self._nodes.get(node)
        if closest is not None and closest.is_offering:
            return Phase.OFFERING
        return Phase.WAITING if closest is not None and closest.keys else Phase.IDLE

    def stored(self, key: InboxKey, five: Iterable[NodeId], *, until_ms: int, now_ms: int) -> None:
        """A sender's mail lies under a key of which these are the five closest nodes, and not this one."""
        if key not in self._until_ms and len(self._until_ms) >= MOST_KEYS:
            self._give_up(next(iter(self._until_ms)), now_ms)
        for node in five:
            self.step(node, Stored(key, until_ms), now_ms=now_ms)

    def step(self, node: NodeId, event: Event, *, now_ms: int) -> tuple[Offer, ...]:
        following = legal_phases(TABLE, self.phase_of(node), event)
        effects = self._step(node, event, now_ms)
        check_phase(following, self.phase_of(node), event)
        return effects

    def take_turns(self, now_ms: int) -> tuple[Offer, ...]:
        """Start the offers whose time has come."""
        for key in [each for each, until_ms in self._until_ms.items() if until_ms <= now_ms]:
            self._give_up(key, now_ms)
        self._forget_rested(now_ms)
        due = [
            node
            for node, each in self._nodes.items()
            if each.keys and not each.is_offering and each.not_before_ms <= now_ms
        ]
        return tuple(effect for node in due for effect in self.step(node, Turn(), now_ms=now_ms))

    def wait_ms(self, now_ms: int) -> int | None:
        """Return when `take_turns` is to be called again; None if nothing waits for a time."""
        times = [each.not_before_ms for each in self._nodes.values() if each.keys and not each.is_offering]
        return max(0, min(times) - now_ms) if times else None

    def _step(self, node: NodeId, event: Event, now_ms: int) -> tuple[Offer, ...]:
        match event:
            case Stored(key, until_ms):
                self._until_ms.setdefault(key, until_ms)
                self._closest(node, now_ms).keys[key] = 0
                return ()
            case Turn():
                return self._offer(node)
        closest = self._nodes[node]
        match event:
            case Answered(key, holds_all) if key in closest.keys:
                closest.keys[key] += 1
                closest.lacked_some |= not holds_all
                if holds_all or closest.keys[key] >= MOST_ANSWERED:
                    self._remove(closest, key)
            case GivenUp(key) if key in closest.keys:
                self._remove(closest, key)
            case Ended(was_answered):
                self._pause(closest, now_ms, is_urgent=was_answered and closest.lacked_some)
        return ()

    def _closest(self, node: NodeId, now_ms: int) -> _Closest:
        closest = self._nodes.get(node)
        if closest is None or self._is_rested(closest, now_ms):
            closest = _Closest(now_ms + self._pauses.collecting_ms, self._pauses.shortest_ms)
            self._nodes[node] = closest
        return closest

    def _offer(self, node: NodeId) -> tuple[Offer, ...]:
        closest = self._nodes[node]
        keys = tuple(closest.keys)[:MOST_AT_ONCE]
        for key in keys:
            closest.keys[key] = closest.keys.pop(key)
        closest.is_offering, closest.lacked_some = True, False
        return (Offer(node, keys),)

    def _pause(self, closest: _Closest, now_ms: int, *, is_urgent: bool) -> None:
        """Senders hear a node that holds all, and one that is silent will be silent for a while: both wait longer."""
        if is_urgent:
            closest.pause_ms = self._pauses.shortest_ms
        closest.is_offering = False
        closest.not_before_ms = now_ms + closest.pause_ms
        closest.pause_ms = min(2 * closest.pause_ms, self._pauses.longest_ms)

    def _give_up(self, key: InboxKey, now_ms: int) -> None:
        for node in [node for node, each in self._nodes.items() if key in each.keys]:
            self.step(node, GivenUp(key), now_ms=now_ms)

    def _remove(self, closest: _Closest, key: InboxKey) -> None:
        del closest.keys[key]
        if not any(key in each.keys for each in self._nodes.values()):
            del self._until_ms[key]

    def _is_rested(self, closest: _Closest, now_ms: int) -> bool:
        return not closest.keys and not closest.is_offering and closest.not_before_ms <= now_ms

    def _forget_rested(self, now_ms: int) -> None:
        for node in [node for node, each in self._nodes.items() if self._is_rested(each, now_ms)]:
            del self._nodes[node]
