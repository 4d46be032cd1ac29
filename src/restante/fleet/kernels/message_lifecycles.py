"""Summarise the events of many messages at once: first and last events, counts, impossible changes.

Events are sorted by message and then by event id. Everything else is the first or last event of some kind within a
message, or a count. transforms/messages decides which inconsistency a message is reported with.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.arrivals_schema import Flags, Ints, Small, Words, halves, ints
from restante.model.journal import STATE_AFTER, JournalKind
from restante.model.states import ENDED, State

KINDS: Final = tuple(JournalKind)
STATES: Final = tuple(State)
"""The place in these tuples is the number in a table."""
ARRIVED_AGAIN: Final = len(KINDS)
"""An arrival that its recipient knew as a duplicate: the one code that is looked at here."""

ACCEPTED_AGAIN, RECOVERED_IN_FLIGHT, CHANGED_AFTER_END = range(3)
NOTHING: Final = -1

MESSAGE_EVENTS: Final = pa.schema(
    [
        ("message_id", pa.binary()),
        ("event_id", pa.binary()),
        ("writer", pa.binary()),
        ("at_ms", pa.int64()),
        ("kind", pa.int8()),
        ("code", pa.string()),
        ("message_kind", pa.string()),
        ("priority", pa.int32()),
        ("payload_hash", pa.binary()),
        ("size_bytes", pa.int64()),
        ("ttl_s", pa.int64()),
        ("node", pa.binary()),
    ]
)
"""The first five have no nulls; a message without a name has 16 zeros for it. Ids are of 16 bytes. What the last eight
say of an event that they are not asked of is null."""

LIVES: Final = (
    "message_id binary, first_sender binary, last_sender binary, recipient binary, message_kind string, priority int, "
    "payload_hash binary, size_bytes bigint, ttl_s bigint, accepted_at_ms bigint, state string, last_code string, "
    "state_at_ms bigint, attempts bigint, last_attempt_at_ms bigint, sent_at_ms bigint, read_at_ms bigint, "
    "arrivals bigint, duplicates bigint, releases bigint, released_at_ms bigint, first_event_at_ms bigint, "
    "last_event string, last_event_at_ms bigint, first_inconsistency tinyint, other_hashes array<binary>, "
    "confirmed array<struct<node: binary, at_ms: bigint, took_ms: bigint>>, "
    "last_change_number bigint"
)
"""`other_hashes`: what the message was sealed as besides `payload_hash`; one may be there more than once. `confirmed`:
which nodes signed for it, when, and how long after the last try of the same writer (0 where there was none)."""

_KIND: Final = {kind: np.int8(place) for place, kind in enumerate(KINDS)}
_STATE: Final = {state: np.int8(place) for place, state in enumerate(STATES)}
_STATE_WORDS: Final = pa.array([state.value for state in STATES], pa.string())
_KIND_WORDS: Final = pa.array([*(kind.value for kind in KINDS), JournalKind.ARRIVED.value, None], pa.string())
_STATE_AFTER: Final[Small] = np.array(
    [*(_STATE[STATE_AFTER[kind]] if kind in STATE_AFTER else NOTHING for kind in KINDS), NOTHING], dtype=np.int8
)
_IS_ENDED: Final[Flags] = np.array([state in ENDED for state in STATES])


def lives_of(rows: Any) -> Any:
    """One row a message of `events`, as LIVES has it. All events of a message must be there."""
    return _Sorted(rows).lives()


class _Sorted:
    """Events in order of message and event id. `order` leads from a place there to a row of the table."""

    def __init__(self, rows: Any) -> None:
        self.columns = {name: pa.concat_arrays(rows[name].chunks) for name in MESSAGE_EVENTS.names}
        ids, events = halves(self.columns["message_id"]), halves(self.columns["event_id"]).byteswap()
        self.order = _order(ids, events)
        self.event_number: Ints = events[:, 1][self.order].view(np.int64)
        high, low = (ids[:, half][self.order] for half in range(2))
        begins = np.ones(len(high), dtype=np.bool_)
        begins[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        self.message: Ints = np.cumsum(begins) - 1
        self.starts: Ints = np.flatnonzero(begins)
        self.is_nameless: Flags = (high[self.starts] == 0) & (low[self.starts] == 0)
        self.kind: Small = ints(self.columns["kind"])[self.order]
        self.at_ms: Ints = ints(self.columns["at_ms"])[self.order]
        self.state: Small = _STATE_AFTER[self.kind]
        self.changes: Flags = self.state != NOTHING

    def lives(self) -> Any:
        kind, changes = self.kind, self.changes
        changed = self.last(changes)
        latest = np.maximum.reduceat(self.at_ms, self.starts)[self.message]
        # Events of several writers have no common number: here, and only here, their clocks must do.
        told = self.last(self.at_ms == latest)
        first_sender, last_sender = self.extremes(changes)
        is_arrival = (kind == _KIND[JournalKind.ARRIVED]) | (kind == ARRIVED_AGAIN)
        released = kind == _KIND[JournalKind.RELEASED]
        tried = kind == _KIND[JournalKind.ATTEMPTED]
        sealed = {name: self.sealed(name) for name in ("payload_hash", "size_bytes", "ttl_s")}
        columns = {
            "message_id": self.names(),
            "first_sender": self.taken("writer", first_sender),
            "last_sender": self.taken("writer", last_sender),
            "recipient": self.taken("writer", self.extremes(released)[0]),
            "message_kind": self.taken("message_kind", self.first(changes & self.has("message_kind"))),
            "priority": self.taken("priority", self.first(changes & self.has("priority"))),
            **{name: self.taken(name, places) for name, places in sealed.items()},
            "accepted_at_ms": self.at(self.first(kind == _KIND[JournalKind.ACCEPTED])),
            "state": _STATE_WORDS.take(self.numbers(self.state, changed)),
            "last_code": self.taken("code", changed),
            "state_at_ms": self.at(changed),
            "attempts": self.count(tried),
            "last_attempt_at_ms": self.at(self.last(tried)),
            "sent_at_ms": self.at(self.first(kind == _KIND[JournalKind.SENT])),
            "read_at_ms": self.at(self.first(kind == _KIND[JournalKind.READ])),
            "arrivals": self.count(is_arrival),
            "duplicates": self.count(kind == ARRIVED_AGAIN),
            "releases": self.count(released),
            "released_at_ms": self.earliest(released),
            "first_event_at_ms": pa.array(np.minimum.reduceat(self.at_ms, self.starts)),
            "last_event": _KIND_WORDS.take(self.numbers(np.where(kind == NOTHING, len(_KIND_WORDS) - 1, kind), told)),
            "last_event_at_ms": self.at(told),
            "first_inconsistency": self.inconsistencies(),
            "other_hashes": self.other_hashes(sealed["payload_hash"]),
            "confirmed": self.confirmed(),
            "last_change_number": self.numbers(self.event_number, changed),
        }
        return pa.table(columns)

    def first(self, where: Flags) -> Ints:
        """For each message the place of its first event of these, or NOTHING."""
        places = np.flatnonzero(where)
        of = self.message[places]
        is_first = np.ones(len(of), dtype=np.bool_)
        is_first[1:] = of[1:] != of[:-1]
        return self._by_message(of[is_first], places[is_first])

    def last(self, where: Flags) -> Ints:
        places = np.flatnonzero(where)
        of = self.message[places]
        is_last = np.ones(len(of), dtype=np.bool_)
        is_last[:-1] = of[1:] != of[:-1]
        return self._by_message(of[is_last], places[is_last])

    def count(self, where: Flags) -> Any:
        return pa.array(np.bincount(self.message[where], minlength=len(self.starts)).astype(np.int64))

    def earliest(self, where: Flags) -> Any:
        """By the clocks of those who wrote."""
        never = np.iinfo(np.int64).max
        found = np.minimum.reduceat(np.where(where, self.at_ms, never), self.starts)
        return pa.array(found, mask=found == never)

    def has(self, name: str) -> Flags:
        valid: Flags = self.columns[name].is_valid().to_numpy(zero_copy_only=False)
        return valid[self.order]

    def sealed(self, name: str) -> Ints:
        """What is sent now: what a message was sealed reencrypted as, or else what was accepted."""
        known = self.has(name)
        reencrypted = self.last(known & (self.kind == _KIND[JournalKind.REENCRYPTED]))
        return np.where(reencrypted == NOTHING, self.first(known & self.changes), reencrypted)

    def other_hashes(self, current: Ints) -> Any:
        is_sealed = self.changes | (self.kind == _KIND[JournalKind.REENCRYPTED])
        places = np.flatnonzero(is_sealed & self.has("payload_hash"))
        is_other = pc.not_equal(
            self.taken("payload_hash", places), self.taken("payload_hash", current[self.message[places]])
        )
        others = places[is_other.to_numpy(zero_copy_only=False)]
        return self.lists(others, self.taken("payload_hash", others))

    def confirmed(self) -> Any:
        """Of each signature of a node: which, when, and the time since the try before it."""
        tried = self.kind == _KIND[JournalKind.ATTEMPTED]
        is_signed = (self.kind == _KIND[JournalKind.DELIVERY_CONFIRMED]) & self.has("node")
        places = np.flatnonzero(tried | is_signed)
        if not is_signed.any():
            places = places[:0]
        of, writers = self.message[places], self.writers(places)
        if _any_changes(of, writers):
            in_order = np.lexsort((places, writers[:, 1], writers[:, 0], of))
            places, writers = places[in_order], writers[in_order]
        own = np.cumsum(np.append(True, (of[1:] != of[:-1]) | (writers[1:] != writers[:-1]).any(axis=1))[: len(of)])
        tries = np.where(tried[places], np.arange(len(places)), NOTHING)
        before = np.maximum.accumulate(tries) if len(tries) else tries
        is_timed = (before != NOTHING) & (own[before] == own)
        took = np.where(is_timed, np.maximum(self.at_ms[places] - self.at_ms[places[before]], 0), 0)
        is_signature = ~tried[places]
        signed = places[is_signature]
        values = [self.taken("node", signed), self.at(signed), pa.array(took[is_signature])]
        return self.lists(signed, pa.StructArray.from_arrays(values, ["node", "at_ms", "took_ms"]))

    def extremes(self, where: Flags) -> tuple[Ints, Ints]:
        """For each message the places of the lowest and the highest writer among those of these events."""
        places = np.flatnonzero(where)
        of, writers = self.message[places], self.writers(places)
        if _any_changes(of, writers):
            places = places[np.lexsort((writers[:, 1], writers[:, 0], of))]
        is_edge = of[1:] != of[:-1]
        is_lowest, is_highest = np.append(True, is_edge)[: len(of)], np.append(is_edge, True)[: len(of)]
        return self._by_message(of[is_lowest], places[is_lowest]), self._by_message(of[is_highest], places[is_highest])

    def inconsistencies(self) -> Any:
        """The first change of each message's state that cannot have been."""
        places = np.flatnonzero(self.changes)
        of, kind, after = self.message[places], self.kind[places], self.state[places]
        before = np.full(len(places), NOTHING, dtype=np.int8)
        before[1:] = np.where(of[1:] == of[:-1], after[:-1], NOTHING)
        is_recovery = kind == _KIND[JournalKind.RECOVERED]
        cases = [
            kind == _KIND[JournalKind.ACCEPTED],
            is_recovery & (before != _STATE[State.DEAD]),
            ~is_recovery & _IS_ENDED[before],
        ]
        inconsistency = np.full(len(self.kind), NOTHING, dtype=np.int8)
        found = np.select(cases, [ACCEPTED_AGAIN, RECOVERED_IN_FLIGHT, CHANGED_AFTER_END], NOTHING)
        inconsistency[places] = np.where(before == NOTHING, NOTHING, found)
        return self.numbers(inconsistency, self.first(inconsistency != NOTHING))

    def names(self) -> Any:
        return self.taken("message_id", np.where(self.is_nameless, NOTHING, self.starts))

    def taken(self, name: str, places: Ints) -> Any:
        """The value of a column in these places; null where there is none."""
        return self.columns[name].take(pa.array(self.order[places], mask=places == NOTHING))

    def lists(self, places: Ints, values: Any) -> Any:
        """What messages have of something: `values` are those of these places, message by message."""
        sizes = np.bincount(self.message[places], minlength=len(self.starts))
        return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32)), values)

    def writers(self, places: Ints) -> Words:
        """In the order of their bytes."""
        found: Words = halves(self.columns["writer"])[self.order[places]].byteswap()
        return found

    def at(self, places: Ints) -> Any:
        return self.numbers(self.at_ms, places)

    def numbers(self, values: Any, places: Ints) -> Any:
        return pa.array(values[places], mask=places == NOTHING)

    def _by_message(self, of: Ints, places: Ints) -> Ints:
        found = np.full(len(self.starts), NOTHING, dtype=np.int64)
        found[of] = places
        return found


def _order(ids: Words, events: Words) -> Ints:
    return np.lexsort((events[:, 1], events[:, 0], ids[:, 1], ids[:, 0]))


def _any_changes(of: Ints, writers: Words) -> bool:
    """Whether any message has more than one writer."""
    is_other = (writers[1:, 0] != writers[:-1, 0]) | (writers[1:, 1] != writers[:-1, 1])
    return bool(np.any((of[1:] == of[:-1]) & is_other))
