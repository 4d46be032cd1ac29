"""core/replication/offers: which keys are offered to closer nodes, how often, and how many at most (SPEC 7.9, 7.12)."""

import itertools
from collections.abc import Callable

import pytest

from restante.core.replication.offered_keys import MOST_OF_NODE, MOST_OFFERING, MOST_TAKEN, OfferedKeys
from restante.core.replication.offers import (
    MOST_ANSWERED,
    MOST_AT_ONCE,
    MOST_KEYS,
    TABLE,
    Answered,
    Ended,
    Event,
    GivenUp,
    Offer,
    Offers,
    Phase,
    Stored,
    Turn,
)
from restante.model.errors import LocalProtocolError
from restante.model.ids import InboxKey, NodeId
from restante.policy.mesh.repair import PING_INTERVAL_MS, ROUND_AFTER_BUCKET_MS, ms_until_round, offer_pauses
from restante.policy.mesh.time_buckets import HOUR_MS
from support.spec.clauses import clause

NODES = tuple(NodeId(bytes([number]) * 32) for number in range(1, 6))
NODE = NODES[0]
KEY, OTHER = InboxKey(b"k" * 32), InboxKey(b"o" * 32)
PAUSES = offer_pauses(PING_INTERVAL_MS)
UNTIL_MS = HOUR_MS


def numbered_key(number: int) -> InboxKey:
    return InboxKey(number.to_bytes(32, "big"))


def waiting(*keys: InboxKey, now_ms: int = 0) -> Offers:
    offers = Offers(PAUSES)
    for key in keys:
        offers.stored(key, [NODE], until_ms=UNTIL_MS, now_ms=now_ms)
    return offers


def offering(*keys: InboxKey) -> Offers:
    offers = waiting(*keys)
    assert offers.take_turns(PAUSES.collecting_ms) == (Offer(NODE, keys),)
    return offers


def offered_at(offers: Offers, until_ms: int, *, answers: bool, holds_all: bool = False, took_ms: int = 0) -> list[int]:
    """Return when the node is offered something, if each offer ends like this."""
    times: list[int] = []
    now_ms = 0
    while (wait_ms := offers.wait_ms(now_ms)) is not None and now_ms + wait_ms < until_ms:
        now_ms += wait_ms
        for node, keys in offers.take_turns(now_ms):
            times.append(now_ms)
            now_ms += took_ms
            for key in keys if answers else ():
                offers.step(node, Answered(key, holds_all), now_ms=now_ms)
            offers.step(node, Ended(answers), now_ms=now_ms)
    return times


EVENTS: list[Event] = [Stored(OTHER, UNTIL_MS), Turn(), Answered(KEY, True), Ended(True), Ended(False), GivenUp(KEY)]


@clause("7.9")
def test_every_phase_meets_every_event() -> None:
    seen: dict[tuple[Phase, type], set[Phase]] = {}
    examples: dict[Phase, list[Callable[[], Offers]]] = {
        Phase.IDLE: [lambda: Offers(PAUSES)],
        Phase.WAITING: [lambda: waiting(KEY), lambda: waiting(KEY, OTHER)],
        Phase.OFFERING: [lambda: offering(KEY), lambda: _answered(offering(KEY))],
    }
    for phase, make in examples.items():
        for made in make:
            for event in EVENTS:
                offers = made()
                assert offers.phase_of(NODE) is phase
                if type(event) not in TABLE[phase]:
                    with pytest.raises(LocalProtocolError):
                        offers.step(NODE, event, now_ms=0)
                    assert offers.phase_of(NODE) is phase
                    continue
                offers.step(NODE, event, now_ms=0)
                seen.setdefault((phase, type(event)), set()).add(offers.phase_of(NODE))
    assert seen == {(phase, event): set(to) for phase, row in TABLE.items() for event, to in row.items()}


def _answered(offers: Offers) -> Offers:
    offers.step(NODE, Answered(KEY, True), now_ms=0)
    return offers


@clause("7.9", "7.12")
def test_a_thousand_messages_of_one_key_make_one_offer_to_each_of_the_five() -> None:
    offers = Offers(PAUSES)
    for number in range(1_000):
        offers.stored(KEY, NODES, until_ms=UNTIL_MS, now_ms=number)
    assert offers.take_turns(PAUSES.collecting_ms - 1) == ()
    assert offers.take_turns(PAUSES.collecting_ms) == tuple(Offer(node, (KEY,)) for node in NODES)
    assert offers.take_turns(PAUSES.collecting_ms) == ()


@clause("7.9")
def test_a_silent_node_is_asked_after_growing_pauses_until_the_round() -> None:
    offers = waiting(KEY)
    times = offered_at(offers, 2 * HOUR_MS, answers=False)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[:5] == [5_000, 10_000, 20_000, 40_000, 60_000]
    assert set(pauses[5:]) == {60_000}
    assert UNTIL_MS - 60_000 <= times[-1] < UNTIL_MS
    assert (len(offers), offers.phase_of(NODE)) == (0, Phase.IDLE)


@clause("7.9")
def test_a_node_that_holds_all_is_asked_no_more() -> None:
    assert len(offered_at(waiting(KEY), HOUR_MS, answers=True, holds_all=True)) == 1


@clause("7.9", "7.12")
def test_a_node_that_answers_and_never_holds_the_mail_is_asked_three_times() -> None:
    offers = waiting(KEY)
    assert offered_at(offers, HOUR_MS, answers=True) == [2_000, 7_000, 12_000]
    assert len(offers) == 0
    assert MOST_ANSWERED == 3


@clause("7.9")
def test_mail_that_comes_during_an_offer_is_offered_after_it() -> None:
    offers = offering(KEY)
    offers.step(NODE, Answered(KEY, True), now_ms=2_100)
    offers.stored(KEY, [NODE], until_ms=UNTIL_MS, now_ms=2_200)
    offers.step(NODE, Ended(True), now_ms=2_300)
    assert offers.wait_ms(2_300) == PAUSES.shortest_ms
    assert offers.take_turns(2_300 + PAUSES.shortest_ms) == (Offer(NODE, (KEY,)),)


@clause("7.9")
def test_a_node_that_senders_reach_is_offered_a_busy_key_once_a_minute() -> None:
    """One of the five is dead: the sixth gets each message, and the four others hold it already."""
    offers, times = Offers(PAUSES), []
    for now_ms in range(0, HOUR_MS, 500):
        offers.stored(KEY, [NODE], until_ms=2 * HOUR_MS, now_ms=now_ms)
        for node, keys in offers.take_turns(now_ms):
            times.append(now_ms)
            for key in keys:
                offers.step(node, Answered(key, True), now_ms=now_ms)
            offers.step(node, Ended(True), now_ms=now_ms)
    assert len(times) <= 5 + 60


@clause("7.9")
def test_one_silent_node_delays_no_other() -> None:
    offers = Offers(PAUSES)
    offers.stored(KEY, NODES[:2], until_ms=UNTIL_MS, now_ms=0)
    assert len(offers.take_turns(PAUSES.collecting_ms)) == 2
    offers.step(NODES[1], Ended(True), now_ms=3_000)
    assert offers.take_turns(3_000 + PAUSES.shortest_ms) == (Offer(NODES[1], (KEY,)),)


@clause("7.12")
def test_keys_that_wait_are_bounded_and_the_oldest_gives_way() -> None:
    offers = Offers(PAUSES)
    for number in range(MOST_KEYS + 10):
        offers.stored(numbered_key(number), NODES, until_ms=UNTIL_MS, now_ms=0)
    assert len(offers) == MOST_KEYS
    first = offers.take_turns(PAUSES.collecting_ms)[0]
    assert first.keys == tuple(map(numbered_key, range(10, 10 + MOST_AT_ONCE)))


@clause("7.12")
def test_keys_of_a_node_take_turns() -> None:
    offers = Offers(PAUSES)
    for number in range(2 * MOST_AT_ONCE):
        offers.stored(numbered_key(number), [NODE], until_ms=UNTIL_MS, now_ms=0)
    first = offers.take_turns(PAUSES.collecting_ms)[0].keys
    offers.step(NODE, Ended(False), now_ms=PAUSES.collecting_ms)
    second = offers.take_turns(PAUSES.collecting_ms + PAUSES.shortest_ms)[0].keys
    assert len(first) == MOST_AT_ONCE
    assert not set(first) & set(second)


@clause("7.12")
def test_a_node_that_was_offered_everything_is_forgotten() -> None:
    offers = waiting(KEY)
    offered_at(offers, HOUR_MS, answers=True, holds_all=True)
    assert offers.take_turns(HOUR_MS) == ()
    assert offers.wait_ms(HOUR_MS) is None
    offers.stored(KEY, [NODE], until_ms=2 * HOUR_MS, now_ms=HOUR_MS)
    assert offers.wait_ms(HOUR_MS) == PAUSES.collecting_ms


@clause("7.9")
def test_offers_end_when_the_round_after_the_bucket_runs() -> None:
    assert ms_until_round(10 * HOUR_MS) == HOUR_MS + ROUND_AFTER_BUCKET_MS
    assert ms_until_round(11 * HOUR_MS - 1) == 1 + ROUND_AFTER_BUCKET_MS


@clause("7.12")
def test_what_neighbours_offer_is_bounded() -> None:
    offered = OfferedKeys()
    for node in range(MOST_OFFERING + 5):
        for key in range(MOST_OF_NODE + 5):
            offered.add(NodeId(node.to_bytes(32, "big")), numbered_key(key))
    assert len(offered) == MOST_OFFERING * MOST_OF_NODE
    taken = offered.take()
    assert len(taken) == MOST_OFFERING
    assert {len(keys) for keys in taken.values()} == {MOST_TAKEN}
    while offered.take():
        pass
    assert len(offered) == 0


@clause("7.9")
def test_a_key_that_is_offered_twice_is_taken_once() -> None:
    offered = OfferedKeys()
    for _ in range(2):
        offered.add(NODE, KEY)
    assert offered.take() == {NODE: (KEY,)}
