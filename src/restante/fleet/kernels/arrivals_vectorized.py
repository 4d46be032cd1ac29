"""The common case, for all sessions of a partition at once: in order, small reorderings, repeats (SPEC 9.1, 9.4).

Works on events sorted by session and number. A session that might need more than that (a gap that times out or is too
wide, a number used twice, a message from another session, anything but arrivals) is marked `needs_fallback` and left to
kernels/arrivals_fallback; its results here are void. There is no Python call per row or session.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from restante.fleet.kernels.arrivals_schema import (
    ARRIVED,
    COLLISION,
    CONTROL_ARRIVED,
    DUPLICATE,
    HELD,
    NEW,
    NO_SEQUENCE,
    NOTHING,
    PLACEHOLDER,
    RELEASED,
    Flags,
    Ints,
    Small,
    Words,
)

_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_SEQUENCE_BITS: Final = 32


@dataclass(slots=True, kw_only=True)
class Rows:
    """Events in order: by session, then by number. `session` counts from 0 and has no holes."""

    session: Ints
    start: Ints
    """The first row of each session."""
    event: Small
    at_ms: Ints
    sequence: Ints
    message: Words
    payload: Words
    recorded: Small

    @property
    def last(self) -> Ints:
        """The last row of each session."""
        return np.append(self.start[1:], len(self.session)) - 1


@dataclass(slots=True, kw_only=True)
class Before:
    """The state of the same sessions. What is seen is sorted by `seen_key`, the mix of session and message."""

    expected: Ints
    has_placeholder: Flags
    """By session: whether a number that waits has nothing to release."""
    waiting_session: Ints
    waiting_number: Ints
    waiting_at_ms: Ints
    seen_session: Ints
    seen_key: Words
    seen_message: Words
    seen_payload: Words
    seen_at_ms: Ints


@dataclass(slots=True, kw_only=True)
class After:
    """Outcomes by row, and the new state of the vectorized sessions. `is_leader`: the first arrival of a number."""

    needs_fallback: Flags
    verdict: Small
    placement: Small
    expected: Ints
    released: Ints
    is_leader: Flags
    leader_seen_at_ms: Ints
    """By row: when the message of a leader was last seen."""
    seen_at_ms: Ints
    """By entry of the state before: when it was last seen."""
    waiting_session: Ints
    waiting_number: Ints
    waiting_at_ms: Ints


def mixed(session: Ints, message: Words) -> Words:
    """A key for (session, message). Keys that collide only send a session to the fallback path."""
    key: Words = session.astype(np.uint64) * _MIX[2] ^ message[:, 0] * _MIX[0] ^ message[:, 1] * _MIX[1]
    return key


def classify_vectorized(rows: Rows, before: Before, *, max_gap: int, gap_timeout_ms: int, window_ms: int) -> After:
    """Outcomes and state of every session that does not need the fallback path."""
    count = len(rows.session)
    after = After(
        needs_fallback=before.has_placeholder.copy(),
        verdict=np.full(count, NOTHING, dtype=np.int8),
        placement=np.full(count, NOTHING, dtype=np.int8),
        expected=np.empty(count, dtype=np.int64),
        released=np.empty(count, dtype=np.int64),
        is_leader=np.zeros(count, dtype=np.bool_),
        leader_seen_at_ms=rows.at_ms.copy(),
        seen_at_ms=before.seen_at_ms.copy(),
        waiting_session=before.waiting_session,
        waiting_number=before.waiting_number,
        waiting_at_ms=before.waiting_at_ms,
    )
    if not count:
        return after
    after.needs_fallback[rows.session[(rows.event != ARRIVED) & (rows.event != CONTROL_ARRIVED)]] = True
    earliest = np.minimum.reduceat(rows.at_ms, rows.start)
    latest = np.maximum.reduceat(rows.at_ms, rows.start)
    # Within one window nothing is forgotten, whatever the clock did.
    after.needs_fallback |= latest - earliest >= window_ms
    key = mixed(rows.session, rows.message)
    is_known = _classify_known(rows, before, after, key, window_ms)
    _classify_repeats(rows, before, after, ~is_known & (rows.sequence != NO_SEQUENCE))
    _classify_unopened(rows, after, key, ~is_known & (rows.sequence == NO_SEQUENCE))
    _find_double_use(rows, after, key)
    _put_in_order(rows, before, after, max_gap=max_gap, gap_timeout_ms=gap_timeout_ms)
    return after


def _same(one: Words, other: Words) -> Flags:
    same: Flags = (one[:, 0] == other[:, 0]) & (one[:, 1] == other[:, 1])
    return same


def _verdicts(payload: Words, known: Words) -> Small:
    return np.where(_same(payload, known), np.int8(DUPLICATE), np.int8(COLLISION))


def _classify_known(rows: Rows, before: Before, after: After, key: Words, window_ms: int) -> Flags:
    """Arrivals whose message was seen in an earlier batch."""
    is_known = np.zeros(len(key), dtype=np.bool_)
    if not len(before.seen_key):
        return is_known
    twice = before.seen_key[1:] == before.seen_key[:-1]
    after.needs_fallback[before.seen_session[1:][twice]] = True
    place = np.searchsorted(before.seen_key, key)
    place[place == len(before.seen_key)] = 0
    hit = np.flatnonzero(before.seen_key[place] == key)
    entry = place[hit]
    is_true = _same(rows.message[hit], before.seen_message[entry]) & (rows.session[hit] == before.seen_session[entry])
    after.needs_fallback[rows.session[hit[~is_true]]] = True
    hit, entry = hit[is_true], entry[is_true]
    at_ms, seen_at_ms = rows.at_ms[hit], before.seen_at_ms[entry]
    # Seen again, it stays known for longer; only the first look back could find it forgotten.
    after.needs_fallback[rows.session[hit[at_ms - seen_at_ms >= window_ms]]] = True
    verdict = _verdicts(rows.payload[hit], before.seen_payload[entry])
    after.verdict[hit] = verdict
    # Rows are in order, and of several values for one place the last one stays.
    after.seen_at_ms[entry[verdict == DUPLICATE]] = at_ms[verdict == DUPLICATE]
    is_known[hit] = True
    return is_known


def _classify_repeats(rows: Rows, before: Before, after: After, is_opened: Flags) -> None:
    """Arrivals that bring a number again that came in this batch; the others are leaders, for now."""
    opened = np.flatnonzero(is_opened)
    number = (rows.session[opened] << _SEQUENCE_BITS) | rows.sequence[opened]
    # Sessions come almost in order, and a stable sort takes almost no time for that.
    by_number = np.argsort(number, kind="stable")
    opened, number = opened[by_number], number[by_number]
    is_first = np.ones(len(number), dtype=np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    first = opened[is_first]
    after.is_leader[first] = True
    after.verdict[first] = NEW
    recorded = rows.recorded[first]
    # The recipient knew it from elsewhere: another session of the same sender.
    after.needs_fallback[rows.session[first[(recorded == DUPLICATE) | (recorded == COLLISION)]]] = True
    if len(before.waiting_number):
        waits = np.isin(number, (before.waiting_session << _SEQUENCE_BITS) | before.waiting_number)
        after.needs_fallback[rows.session[opened[waits]]] = True
    again = opened[~is_first]
    leader = first[np.cumsum(is_first)[~is_first] - 1]
    after.needs_fallback[rows.session[again[~_same(rows.message[again], rows.message[leader])]]] = True
    _classify_again(rows, after, again, leader)


def _classify_again(rows: Rows, after: After, again: Ints, leader: Ints) -> None:
    verdict = _verdicts(rows.payload[again], rows.payload[leader])
    after.verdict[again] = verdict
    in_order = np.argsort(again, kind="stable")
    again, leader = again[in_order], leader[in_order]
    is_duplicate = after.verdict[again] == DUPLICATE
    # An unopened repeat may come between two opened ones: the latest row counts, not the latest look.
    touched, row = leader[is_duplicate], again[is_duplicate]
    after.leader_seen_at_ms[touched] = rows.at_ms[row]


def _classify_unopened(rows: Rows, after: After, key: Words, is_unopened: Flags) -> None:
    """Classify repeats that the recipient recognised by their bytes, so that it never read their number."""
    unopened = np.flatnonzero(is_unopened)
    if not len(unopened):
        return
    leaders = np.flatnonzero(after.is_leader)
    wanted = np.unique(key[unopened])
    place = np.searchsorted(wanted, key[leaders])
    place[place == len(wanted)] = 0
    leaders = leaders[wanted[place] == key[leaders]]
    leaders = leaders[np.argsort(key[leaders], kind="stable")]
    if not len(leaders):
        after.needs_fallback[rows.session[unopened]] = True
        return
    place = np.searchsorted(key[leaders], key[unopened])
    place[place == len(leaders)] = 0
    leader = leaders[place]
    is_true = (
        (rows.session[leader] == rows.session[unopened])
        & _same(rows.message[leader], rows.message[unopened])
        & (leader < unopened)
    )
    after.needs_fallback[rows.session[unopened[~is_true]]] = True
    unopened, leader = unopened[is_true], leader[is_true]
    opened_again = np.flatnonzero((after.verdict == DUPLICATE) & ~after.is_leader & (rows.sequence != NO_SEQUENCE))
    # Both kinds of repeats of one message in one batch: whose look was the last is found out the exact way.
    both = np.isin(key[leader], key[opened_again]) if len(opened_again) else np.zeros(len(leader), dtype=np.bool_)
    after.needs_fallback[rows.session[leader[both]]] = True
    _classify_again(rows, after, unopened, leader)


def _find_double_use(rows: Rows, after: After, key: Words) -> None:
    """One message under two numbers of its session."""
    leaders = np.flatnonzero(after.is_leader)
    used = np.sort(key[leaders])
    twice = used[1:][used[1:] == used[:-1]]
    if len(twice):
        after.needs_fallback[rows.session[leaders[np.isin(key[leaders], twice)]]] = True


def _put_in_order(rows: Rows, before: Before, after: After, *, max_gap: int, gap_timeout_ms: int) -> None:
    """Everything that came or waits, by number: up to the first hole, each is released by the latest before it.

    What had to wait must not have waited too long, at its release or at the latest event.
    """
    leaders = np.flatnonzero(after.is_leader)
    session = np.concatenate([before.waiting_session, rows.session[leaders]])
    number = np.concatenate([before.waiting_number, rows.sequence[leaders]])
    # What waits came before every row of its session.
    row = np.concatenate([rows.start[before.waiting_session] - 1, leaders])
    at_ms = np.concatenate([before.waiting_at_ms, rows.at_ms[leaders]])
    by_number = np.argsort((session << _SEQUENCE_BITS) | number, kind="stable")
    session, number, row, at_ms = session[by_number], number[by_number], row[by_number], at_ms[by_number]
    ahead = number - before.expected[session]
    after.needs_fallback[session[ahead < 0]] = True
    # A buffer that is long before these rows may become full: then a gap is skipped at once.
    is_long = before.waiting_number - before.expected[before.waiting_session] >= max_gap
    after.needs_fallback[before.waiting_session[is_long]] = True
    is_new_session = np.ones(len(session), dtype=np.bool_)
    is_new_session[1:] = session[1:] != session[:-1]
    begins = np.flatnonzero(is_new_session)
    rank = np.arange(len(session)) - begins[np.cumsum(is_new_session) - 1]
    is_reached = ahead == rank
    # Rows of a later session are higher than all of an earlier one: one running maximum serves all sessions.
    released_by = np.maximum.accumulate(row)
    counts = np.bincount(released_by[is_reached & (released_by >= 0)], minlength=len(rows.session))
    total = np.cumsum(counts)
    before_session = (total - counts)[rows.start]
    is_control = np.zeros(len(session), dtype=np.bool_)
    is_control[len(before.waiting_session) :] = rows.event[leaders] == CONTROL_ARRIVED
    is_control = is_control[by_number]
    control = np.bincount(released_by[is_reached & is_control & (released_by >= 0)], minlength=len(rows.session))
    after.released[:] = counts - control
    after.expected[:] = before.expected[rows.session] + total - before_session[rows.session]
    _place(rows, after, leaders, counts, max_gap)
    waits = ~is_reached
    # A control message that still waits has to be stored as a placeholder.
    after.needs_fallback[session[waits & is_control]] = True
    held = np.flatnonzero(waits | (released_by > row))
    until = np.where(waits[held], rows.last[session[held]], released_by[held])
    is_old = rows.at_ms[until] - at_ms[held] >= gap_timeout_ms
    after.needs_fallback[session[held[is_old | _runs_back(rows)[session[held]]]]] = True
    after.waiting_session, after.waiting_number, after.waiting_at_ms = session[waits], number[waits], at_ms[waits]


def _place(rows: Rows, after: After, leaders: Ints, counts: Any, max_gap: int) -> None:
    expected_before = (after.expected - counts)[leaders]
    ahead = rows.sequence[leaders] - expected_before
    # Nearer than this, no message is too far ahead and the buffer can't be full (policy/reorder_limits).
    after.needs_fallback[rows.session[leaders[ahead >= max_gap]]] = True
    placement = np.where(ahead == 0, np.int8(RELEASED), np.int8(HELD))
    after.placement[leaders] = np.where(rows.event[leaders] == CONTROL_ARRIVED, np.int8(PLACEHOLDER), placement)


def _runs_back(rows: Rows) -> Flags:
    """Whether a session's clock was set back: then the latest event need not be the one with the latest time."""
    runs_back = np.zeros(len(rows.start), dtype=np.bool_)
    back = np.flatnonzero(rows.at_ms[1:] < rows.at_ms[:-1]) + 1
    back = back[rows.session[back] == rows.session[back - 1]]
    runs_back[rows.session[back]] = True
    return runs_back
