"""core/mailbox_poll/reading: the union of all lists, each body once, from the best holder that has it."""

from collections.abc import Iterable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from restante.core.mailbox_poll import reading
from restante.core.mailbox_poll.full_sync import MOST_HELD_BYTES, MOST_UNDER_WAY, BodyBudget, OldestFirst
from restante.core.mailbox_poll.reading import (
    ENOUGH_LISTS,
    AskList,
    BodiesReceived,
    Effect,
    Event,
    FetchBodies,
    Finish,
    ListReceived,
    ListsOverdue,
    NodeSilent,
    NotAsked,
    Phase,
    Read,
    start,
)
from restante.model.ids import NodeId, PayloadHash
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

NODES = tuple(NodeId(bytes([number]) * 32) for number in range(1, 19))
A, B, C = (PayloadHash(letter * 32) for letter in (b"a", b"b", b"c"))


def run(state: Read, events: Iterable[Event]) -> tuple[Read, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        state, more = reading.step(state, event)
        effects += more
    return state, effects


def sent(*hashes: PayloadHash, node: NodeId = NODES[0]) -> Event:
    return BodiesReceived(node, hashes, frozenset(hashes))


def lacking(*hashes: PayloadHash, node: NodeId = NODES[0]) -> Event:
    return BodiesReceived(node, hashes, frozenset())


def lists(*hashes: tuple[PayloadHash, ...], complete: bool = True) -> list[Event]:
    return [ListReceived(NODES[number], each, complete) for number, each in enumerate(hashes)]


@clause("7.4")
def test_every_phase_meets_every_event() -> None:
    one, listing = start(NODES[:1])[0], start(NODES)[0]
    fetching = run(one, [ListReceived(NODES[0], (A,), True)])[0]
    two = run(one, [ListReceived(NODES[0], (A, B), True)])[0]
    finished = run(one, [NodeSilent(NODES[0])])[0]
    waiting = run(start(NODES[:2])[0], [ListReceived(NODES[1], (A,), True)])[0]
    listed = [run(start(NODES[:3])[0], lists(each, each))[0] for each in ((), (A,))]
    events = [
        ListReceived(NODES[0], (), True),
        ListReceived(NODES[0], (A,), True),
        NodeSilent(NODES[0]),
        NodeSilent(NODES[1]),
        NotAsked(NODES[0]),
        NotAsked(NODES[1]),
        sent(A),
        lacking(A),
        ListsOverdue(ENOUGH_LISTS),
    ]
    assert_table_holds(
        reading.TABLE,
        {Phase.LISTING: [one, listing, waiting, *listed], Phase.FETCHING: [fetching, two], Phase.FINISHED: [finished]},
        events,
        lambda state, event: reading.step(state, event)[0],
    )


@clause("7.4")
def test_all_five_are_asked_and_none_is_fetched_from_before_all_have_answered() -> None:
    state, effects = start(NODES)
    assert effects == tuple(AskList(node) for node in NODES[:5])
    assert run(state, lists((A,), (A,), (A,), (A,)))[1] == []


@clause("7.4")
def test_silent_nodes_are_passed_outward() -> None:
    state, _ = start(NODES)
    state, effects = run(state, [NodeSilent(node) for node in NODES[:7]])
    assert effects == [AskList(node) for node in NODES[5:12]]
    _, effects = run(start(NODES)[0], [NodeSilent(node) for node in NODES])
    assert effects[-1] == Finish((), 0, True, NODES[:5], ())
    assert len([each for each in effects if isinstance(each, AskList)]) == 11


@clause("7.4", "11.3")
def test_no_node_farther_out_is_asked_in_place_of_one_that_the_own_circuits_did_not_reach() -> None:
    state, _ = start(NODES)
    state, effects = run(state, [NotAsked(node) for node in NODES[:4]])
    assert effects == []
    _, effects = run(state, [ListReceived(NODES[4], (A,), True)])
    assert effects == [FetchBodies(NODES[4], (A,))]


@clause("7.4")
def test_each_body_is_fetched_once_from_its_best_holder() -> None:
    state, _ = start(NODES[:5], ranked=(NODES[3], NODES[0], NODES[1], NODES[2], NODES[4]))
    state, effects = run(state, lists((A, B), (B,), (), (B,), (C,)))
    assert effects == [FetchBodies(NODES[0], (A,)), FetchBodies(NODES[3], (B,)), FetchBodies(NODES[4], (C,))]
    _, effects = run(state, [sent(A), sent(C), sent(B)])
    assert isinstance(effects[-1], Finish)
    assert effects[-1].hashes == (A, B, C)


@clause("7.4")
def test_a_holder_that_fails_is_replaced_by_the_next() -> None:
    state, _ = run(start(NODES[:2])[0], lists((A, B), (A, B)))
    state, effects = run(state, [lacking(A)])
    assert effects == [FetchBodies(NODES[1], (A,))]
    state, effects = run(state, [NodeSilent(NODES[0])])
    assert effects == [FetchBodies(NODES[1], (B,))]
    state, effects = run(state, [sent(A), lacking(B, node=NODES[1])])
    assert isinstance(effects[-1], Finish)
    assert (effects[-1].hashes, effects[-1].is_whole) == ((A,), False)


@clause("7.4")
def test_what_was_received_before_is_not_fetched_again() -> None:
    state, _ = start(NODES[:1], known=(A,))
    _, effects = run(state, lists((A, B)))
    assert effects == [FetchBodies(NODES[0], (B,))]


@clause("7.5")
def test_only_answers_given_in_this_read_with_complete_count() -> None:
    _, effects = run(start(NODES[:5])[0], [*lists((), (), ()), *lists((), (), (), (), (), complete=False)[3:]])
    assert effects == [Finish((), 3, True, NODES[:5], ())]


@clause("13.5")
def test_a_complete_node_that_hides_a_blob_is_named() -> None:
    state, _ = run(start(NODES[:3])[0], [*lists((A,), ()), ListReceived(NODES[2], (), False)])
    _, effects = run(state, [sent(A)])
    assert isinstance(effects[-1], Finish)
    assert effects[-1].missing_at == ((NODES[1], A),)


@clause("7.5")
def test_bodies_keep_the_order_of_one_nodes_list() -> None:
    state, _ = run(start(NODES[:2])[0], lists((A,), (C, B, A)))
    _, effects = run(state, [sent(A, B, C)])
    assert isinstance(effects[-1], Finish)
    assert effects[-1].hashes == (C, B, A)


@clause("7.5", "9.4")
@given(st.lists(st.sets(st.integers(0, 39)), min_size=1, max_size=5), st.randoms())
def test_lists_that_lack_parts_are_merged_so_that_few_messages_come_too_early(
    parts: list[set[int]], random: Random
) -> None:
    """Every node lists in the order of storing. A blob comes before another that it precedes in the longest list, and
    no list is turned round where the others do not contradict it."""
    stored = [PayloadHash(bytes([number]) * 32) for number in range(40)]
    listed = [tuple(stored[number] for number in sorted(part)) for part in parts]
    random.shuffle(listed)
    state, _ = run(start(NODES[: len(listed)])[0], lists(*listed))
    _, effects = run(state, [sent(*stored)])
    finish = next((each for each in effects if isinstance(each, Finish)), None)
    order = finish.hashes if finish is not None else state.wanted
    assert set(order) == {each for part in listed for each in part}
    longest = max(listed, key=len)
    assert [each for each in order if each in longest] == list(longest)
    if len(listed) == 2 and set(listed[0]) & set(listed[1]):
        other = min(listed, key=len)
        assert [each for each in order if each in other] == list(other)


@clause("7.5")
def test_bodies_are_ready_up_to_the_first_that_is_still_fetched() -> None:
    state, _ = run(start(NODES[:2])[0], lists((A, B, C), (B, C)))
    assert reading.ready(state) == ()
    state, _ = run(state, [BodiesReceived(NODES[0], (C,), frozenset({C}))])
    assert reading.ready(state) == (), "A comes first"
    state, effects = run(state, [BodiesReceived(NODES[0], (A,), frozenset())])
    assert (effects, reading.ready(state)) == ([], ()), "no other node has A, and B is still fetched"
    state, effects = run(state, [BodiesReceived(NODES[0], (B,), frozenset())])
    assert (effects, reading.ready(state)) == ([FetchBodies(NODES[1], (B,))], ())
    _, [finish] = run(state, [BodiesReceived(NODES[1], (B,), frozenset({B}))])
    assert isinstance(finish, Finish)
    assert finish.hashes == (B, C)


hashes = st.lists(st.sampled_from([A, B, C]), unique=True).map(tuple)
events = st.one_of(
    st.builds(ListReceived, st.sampled_from(NODES), hashes, st.booleans()),
    st.builds(NodeSilent, st.sampled_from(NODES)),
    st.builds(NotAsked, st.sampled_from(NODES)),
    st.builds(BodiesReceived, st.sampled_from(NODES), hashes, hashes.map(frozenset)),
)


@clause("7.4")
@given(st.lists(events, max_size=80), st.integers(0, 18))
def test_in_every_order_of_events_a_read_finishes_once_with_verified_bodies_only(
    happened: list[Event], nodes: int
) -> None:
    state, first = start(NODES[:nodes])
    after, effects, ready = state, list[Effect](), list[tuple[PayloadHash, ...]]()
    for event in happened:
        after, more = run(after, [event])
        effects += more
        ready.append(reading.ready(after))
    finishes = [each for each in (*first, *effects) if isinstance(each, Finish)]
    assert len(finishes) == (after.phase is Phase.FINISHED)
    fetched = [(each.node, one) for each in effects if isinstance(each, FetchBodies) for one in each.hashes]
    assert len(set(fetched)) == len(fetched)
    for finish in finishes:
        assert set(finish.hashes) <= {
            one for each in happened if isinstance(each, BodiesReceived) for one in each.verified
        }
        assert finish.counted <= len({each.node for each in happened if isinstance(each, ListReceived)})
        for early in ready:
            assert early == tuple(each for each in finish.hashes if each in early), "in the order of the whole read"


@clause("7.5")
@given(st.permutations(range(10)))
def test_a_full_sync_releases_bodies_oldest_bucket_first(finished: list[int]) -> None:
    sync = OldestFirst(range(10))
    released = [bucket for each in finished for bucket, _ in sync.finish(each, (A,))]
    assert released == list(range(10))
    assert sync.is_over


@clause("7.12")
def test_bodies_that_wait_for_an_older_bucket_are_bounded_and_the_oldest_bucket_goes_on() -> None:
    budget = BodyBudget()
    budget.asked(MOST_UNDER_WAY - 64)
    assert budget.may_ask(64, is_oldest=False)
    assert not budget.may_ask(65, is_oldest=True)
    budget.came(MOST_UNDER_WAY - 64, MOST_HELD_BYTES - 1)
    assert budget.may_ask(64, is_oldest=False)
    budget.asked(1)
    budget.came(1, 1)
    assert not budget.may_ask(1, is_oldest=False)
    assert budget.may_ask(64, is_oldest=True)
    budget.released(1)
    assert budget.may_ask(64, is_oldest=False)


@clause("7.4", "7.5")
def test_what_two_nodes_list_waits_only_a_while_for_the_others() -> None:
    state, effects = run(start(NODES)[0], lists((A,), (A,)))
    assert effects == []
    state, effects = run(state, [ListsOverdue(ENOUGH_LISTS)])
    assert effects == [FetchBodies(NODES[0], (A,))]
    state, effects = run(state, [ListReceived(NODES[2], (A, B), True), sent(A)])
    [finish] = effects
    assert isinstance(finish, Finish)
    assert (finish.hashes, finish.counted) == ((A,), 2), (
        "the late list counts for nothing, and comes with the next read"
    )


@clause("7.4", "7.5")
def test_what_one_node_lists_waits_for_a_second_list() -> None:
    state, effects = run(start(NODES)[0], [*lists((A,)), ListsOverdue(ENOUGH_LISTS)])
    assert effects == []
    state, effects = run(state, [NodeSilent(NODES[1])])
    assert effects == [AskList(NODES[5])]
    _, effects = run(state, [ListReceived(NODES[5], (), True)])
    assert effects == [FetchBodies(NODES[0], (A,))]


@clause("7.5", "9.4")
def test_a_backlog_waits_for_all_lists_so_that_it_is_received_in_order() -> None:
    many = tuple(PayloadHash(number.to_bytes(32, "big")) for number in range(reading.MOST_EARLY + 1))
    state, effects = run(start(NODES)[0], [*lists(many, many), ListsOverdue(ENOUGH_LISTS)])
    assert effects == []
    assert state.phase is Phase.LISTING


@clause("7.4", "11.3")
def test_a_read_can_be_ended_with_the_lists_there_are() -> None:
    _, effects = run(start(NODES)[0], [ListsOverdue(0)])
    assert effects == [Finish((), 0, True, NODES[:5], ())], "it counts for nothing"
    _, effects = run(start(NODES)[0], [*lists((A,)), ListsOverdue(0)])
    assert effects == [FetchBodies(NODES[0], (A,))], "what is listed is read first"
