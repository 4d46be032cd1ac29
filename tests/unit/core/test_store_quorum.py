"""core/store_quorum: five at once, two receipts are sent, three are wanted, ten at most."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from restante.core import store_quorum
from restante.core.store_quorum import (
    Effect,
    Event,
    Finish,
    Moved,
    MoveTo,
    NotAsked,
    NotResponsibleAnswered,
    PassOver,
    Phase,
    Put,
    PutFailed,
    ReceiptVerified,
    ReportSent,
    StoreQuorum,
    TimePassed,
    WakeAt,
    WrongBucketAnswered,
    start,
)
from restante.model.ids import NodeId
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

NODES = tuple(NodeId(bytes([number]) * 32) for number in range(1, 13))
NOW_MS = 1_800_000_000_000
BUCKET = NOW_MS // 3_600_000
NEXT_MS = NOW_MS + 2 * 3_600_000
EVENTS: list[Event] = [
    *(ReceiptVerified(node) for node in NODES[:7]),
    *(PutFailed(node) for node in NODES[:7]),
    *(NotAsked(node) for node in NODES[:7]),
    *(WrongBucketAnswered(node, NEXT_MS) for node in NODES[:7]),
    *(NotResponsibleAnswered(node, order) for node in NODES[:7] for order in (NODES[3:], NODES[:10], ())),
    Moved(NODES[2:]),
    Moved(()),
    TimePassed(),
]


def run(state: StoreQuorum, events: Iterable[Event], *, now_ms: int = NOW_MS) -> tuple[StoreQuorum, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        state, more = store_quorum.step(state, event, now_ms=now_ms)
        effects += more
    return state, effects


def asking(count: int = 10) -> StoreQuorum:
    return start(NODES[:count], bucket=BUCKET, now_ms=NOW_MS)[0]


def stored(*numbers: int) -> list[Event]:
    return [ReceiptVerified(NODES[number]) for number in numbers]


def failed(*numbers: int) -> list[Event]:
    return [PutFailed(NODES[number]) for number in numbers]


def puts(effects: Iterable[Effect]) -> list[NodeId]:
    return [each.node for each in effects if isinstance(each, Put)]


@clause("7.3", "7.10")
def test_every_phase_meets_every_event() -> None:
    widening = run(asking(), [*stored(0), *failed(1, 2, 3, 4)])[0]
    moving = run(asking(), [WrongBucketAnswered(NODES[0], NEXT_MS), WrongBucketAnswered(NODES[1], NEXT_MS)])[0]
    reached = {
        Phase.ASKING: [
            asking(),
            asking(1),
            asking(2),
            run(asking(), [*stored(0, 1, 2), *failed(3)])[0],
            run(asking(), [*stored(0), *failed(1, 2, 3)])[0],
            run(asking(5), failed(0, 1, 2, 3))[0],
            run(asking(5), [*stored(0, 1), *failed(2, 3)])[0],
            run(asking(), [WrongBucketAnswered(NODES[0], NEXT_MS)])[0],
            run(asking(5), [*stored(0, 1), *failed(2)])[0],
            run(asking(4), [*stored(0, 1), *(NotResponsibleAnswered(NODES[2], NODES[:4]),)])[0],
        ],
        Phase.WIDENING: [
            widening,
            run(widening, [*stored(5)])[0],
            run(asking(6), [*failed(0, 1, 2, 3, 4)])[0],
            run(asking(7), [*stored(0, 1), *failed(2, 3, 4, 5)])[0],
            run(asking(7), [*stored(0), *failed(1, 2, 3, 4, 5)])[0],
            run(asking(7), [WrongBucketAnswered(NODES[0], NEXT_MS), *failed(1, 2, 3, 4)])[0],
            run(asking(6), [WrongBucketAnswered(NODES[0], NEXT_MS), *failed(1, 2, 3, 4)])[0],
        ],
        Phase.MOVING: [moving],
        Phase.STORED: [run(asking(), stored(0, 1, 2, 3, 4))[0]],
        Phase.FAILED: [run(asking(5), failed(0, 1, 2, 3, 4))[0]],
    }

    # A deadline chooses between the phases that TimePassed may lead to, so it is tried at three times.
    class Timed:
        def __init__(self, state: StoreQuorum, now_ms: int) -> None:
            self.state, self.now_ms, self.phase = state, now_ms, state.phase

    assert_table_holds(
        store_quorum.TABLE,
        {
            phase: [Timed(state, NOW_MS + ms) for state in states for ms in (0, 30_000, 60_000)]
            for phase, states in reached.items()
        },
        EVENTS,
        lambda timed, event: store_quorum.step(timed.state, event, now_ms=timed.now_ms)[0],
    )


@clause("7.3")
def test_all_five_are_asked_at_once() -> None:
    state, effects = start(NODES[:10], bucket=BUCKET, now_ms=NOW_MS)
    assert puts(effects) == list(NODES[:5])
    assert [each.at_ms - NOW_MS for each in effects if isinstance(each, WakeAt)] == [30_000, 60_000]
    assert state.phase is Phase.ASKING


@clause("7.3", "11.3")
def test_nodes_that_a_failed_circuit_did_not_reach_are_asked_again_and_not_replaced_by_others() -> None:
    state, effects = run(asking(), [NotAsked(node) for node in NODES[:5]])
    assert (state.phase, effects) == (Phase.FAILED, [Finish(is_stored=False)])
    state, effects = run(asking(), [*stored(0, 1), *(NotAsked(node) for node in NODES[2:5])])
    assert (state.phase, puts(effects)) == (Phase.STORED, []), "two copies are enough to send"
    state, effects = run(asking(), [*failed(0, 1, 2), *(NotAsked(node) for node in NODES[3:5])])
    assert puts(effects) == list(NODES[5:8]), "with the two there would be too few"


@clause("7.3")
def test_two_receipts_of_distinct_named_nodes_make_it_sent_once() -> None:
    state, effects = run(asking(), [*stored(0, 0), ReceiptVerified(NODES[9])])
    assert effects == []
    assert not state.is_sent
    state, effects = run(state, stored(1, 2))
    assert effects == [ReportSent()]
    assert state.is_sent


@clause("7.3")
def test_five_receipts_end_it() -> None:
    assert run(asking(), stored(0, 1, 2, 3, 4))[1] == [ReportSent(), Finish(True)]


@clause("7.3")
def test_fewer_than_three_after_30_s_go_on_to_the_next_closest() -> None:
    state, _ = run(asking(), stored(0, 1))
    assert run(state, [TimePassed()], now_ms=NOW_MS + 29_999) == (state, [])
    state, effects = run(state, [TimePassed()], now_ms=NOW_MS + 30_000)
    assert puts(effects) == [NODES[5]]
    state, effects = run(state, failed(5), now_ms=NOW_MS + 31_000)
    assert puts(effects) == [NODES[6]]
    state, effects = run(state, stored(6), now_ms=NOW_MS + 32_000)
    assert effects[-1] == Finish(True)
    assert {each.node for each in effects if isinstance(each, PassOver)} == set(NODES[2:5])


@clause("7.3")
def test_three_after_30_s_are_enough() -> None:
    state, _ = run(asking(), stored(0, 1, 2))
    after, effects = run(state, [TimePassed()], now_ms=NOW_MS + 30_000)
    assert after.phase is Phase.STORED
    assert puts(effects) == []


@clause("7.3")
def test_the_tenth_node_is_the_last() -> None:
    state, effects = run(start(NODES, bucket=BUCKET, now_ms=NOW_MS)[0], failed(*range(12)))
    assert puts(effects) == list(NODES[5:10])
    assert state.phase is Phase.FAILED
    assert effects[-1] == Finish(False)


@clause("7.3")
def test_silent_nodes_are_passed_over_for_ten_minutes() -> None:
    _, effects = run(asking(5), [*stored(0, 1), TimePassed()], now_ms=NOW_MS + 60_000)
    assert {(each.node, each.until_ms) for each in effects if isinstance(each, PassOver)} == {
        (node, NOW_MS + 660_000) for node in NODES[2:5]
    }
    _, first = start(NODES[:10], bucket=BUCKET, now_ms=NOW_MS, passed_over=NODES[:2])
    assert puts(first) == list(NODES[2:7])


@clause("7.3")
@given(st.permutations(NODES[:10]), st.integers(0, 10))
def test_at_least_two_of_the_five_that_a_recipient_reads_are_asked_those_that_failed_first(
    failed_in_turn: list[NodeId], count: int
) -> None:
    passed_over = tuple(failed_in_turn[:count])
    _, effects = start(NODES[:10], bucket=BUCKET, now_ms=NOW_MS, passed_over=passed_over)
    failed_of_five = [node for node in passed_over if node in NODES[:5]]
    assert set(puts(effects)) >= set(NODES[:5]) - set(failed_of_five[-3:])
    assert len(puts(effects)) == 5


@clause("7.3")
def test_nodes_that_are_passed_over_are_asked_when_there_are_no_others() -> None:
    _, effects = start(NODES[:3], bucket=BUCKET, now_ms=NOW_MS, passed_over=NODES[:2])
    assert puts(effects) == [NODES[2], NODES[0], NODES[1]]


def test_an_empty_directory_fails_at_once() -> None:
    state, effects = start((), bucket=BUCKET, now_ms=NOW_MS)
    assert (state.phase, effects) == (Phase.FAILED, (Finish(False),))


@clause("7.10")
def test_two_nodes_that_name_the_same_bucket_move_the_message_there() -> None:
    state, effects = run(asking(), [*stored(4), WrongBucketAnswered(NODES[0], NEXT_MS)])
    assert effects == []
    state, effects = run(state, [WrongBucketAnswered(NODES[1], NEXT_MS)])
    assert effects == [MoveTo(BUCKET + 2)]
    state, effects = run(state, [ReceiptVerified(NODES[2]), Moved(NODES[6:])])
    assert puts(effects) == list(NODES[6:11])
    assert (state.bucket, state.stored, state.corrections) == (BUCKET + 2, frozenset(), 1)


@clause("7.10")
def test_one_node_with_a_wrong_clock_moves_nothing_and_is_passed_over() -> None:
    state, effects = run(asking(), [WrongBucketAnswered(NODES[0], NEXT_MS), *stored(1, 2, 3, 4)])
    assert MoveTo(BUCKET + 2) not in effects
    assert PassOver(NODES[0], NOW_MS + 600_000) in effects
    assert state.phase is Phase.STORED


@clause("7.10", "11.6")
def test_one_exit_that_answers_for_all_nodes_moves_nothing() -> None:
    exit_ids = [frozenset({bytes([100 + number])}) for number in range(2)]
    _, effects = run(asking(), [WrongBucketAnswered(node, NEXT_MS, exit_ids[0]) for node in NODES[:10]])
    assert not any(isinstance(each, MoveTo) for each in effects)
    votes = [WrongBucketAnswered(node, NEXT_MS, exit_id) for node, exit_id in zip(NODES, exit_ids, strict=False)]
    assert MoveTo(BUCKET + 2) in run(asking(), votes)[1], "two nodes over two exits do"


@clause("7.10")
def test_a_message_that_is_sent_is_not_moved() -> None:
    votes = [WrongBucketAnswered(NODES[number], NEXT_MS) for number in (2, 3, 4)]
    assert not any(isinstance(each, MoveTo) for each in run(asking(), [*stored(0, 1), *votes])[1])


@clause("7.10")
def test_at_most_three_corrections_an_attempt() -> None:
    state = asking()
    for corrections in range(1, 4):
        later_ms = NEXT_MS + corrections * 3_600_000
        votes = [WrongBucketAnswered(node, later_ms) for node in state.order[:2]]
        state, effects = run(state, [*votes, Moved(NODES[:10])])
        assert state.corrections == corrections
    _, effects = run(state, [WrongBucketAnswered(node, NEXT_MS) for node in NODES[:5]])
    assert not any(isinstance(each, MoveTo) for each in effects)
    _, effects = run(state, [NotResponsibleAnswered(NODES[0], NODES[4:])])
    assert PassOver(NODES[0], NOW_MS + 600_000) in effects


@clause("7.10")
def test_better_descriptors_are_used_at_once() -> None:
    state, effects = run(asking(), [NotResponsibleAnswered(NODES[0], NODES[1:])])
    assert puts(effects) == [NODES[5]]
    assert state.corrections == 1


@clause("7.3")
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 20_000)), max_size=60), st.integers(0, 12))
def test_in_every_order_of_events_sent_means_two_named_receipts(events: list[tuple[Event, int]], nodes: int) -> None:
    state, first = start(NODES[:nodes], bucket=BUCKET, now_ms=NOW_MS)
    effects = list(first)
    at_ms = NOW_MS
    for event, wait_ms in events:
        at_ms += wait_ms
        if type(event) in store_quorum.TABLE[state.phase]:
            state, more = store_quorum.step(state, event, now_ms=at_ms)
            effects += more
    assert state.stored <= state.asked
    assert (ReportSent() in effects) >= state.is_sent
    assert effects.count(ReportSent()) <= 1
    assert sum(isinstance(each, Finish) for each in effects) == (state.phase in (Phase.STORED, Phase.FAILED))
    assert state.corrections <= 3
