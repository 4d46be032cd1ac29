"""core/replication: neighbours, rounds, what a node takes, and when its silence counts."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from restante.core.replication import neighbours, serving, sync_round
from restante.core.replication.neighbours import Exchange, Left, Neighbour, PingAnswered, PingMissed, Repair, meet
from restante.core.replication.responsibility import Take, check_block, check_put
from restante.core.replication.serving import (
    LeaveRequested,
    NeighboursSynced,
    Serving,
    Stop,
    SyncFinished,
    TimePassed,
    WakeAt,
    Withdraw,
    is_complete,
)
from restante.core.replication.sync_round import (
    MOST_UNANSWERED,
    Blob,
    BlockFailed,
    BlockStored,
    Effect,
    Event,
    Finish,
    ListsReceived,
    NodeLost,
    Phase,
    SendHave,
    SendWant,
    SyncRound,
    missing_blobs,
    start,
)
from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.placement import PlacementIndex, place
from restante.policy.mesh.time_buckets import DAY_MS, bucket_at
from support.mesh.nodes import NOW_MS, node
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

NODES = tuple(NodeId(bytes([number]) * 32) for number in range(1, 5))
KEY = InboxKey(b"k" * 32)
A, B, C = (Blob(KEY, PayloadHash(letter * 32)) for letter in (b"a", b"b", b"c"))


def run(state: SyncRound, events: Iterable[Event]) -> tuple[SyncRound, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        state, more = sync_round.step(state, event)
        effects += more
    return state, effects


@clause("7.9")
def test_every_phase_of_a_neighbour_meets_every_event() -> None:
    alive = meet(NODES[0])[0]
    doubted = neighbours.step(alive, PingMissed())[0]
    dead = neighbours.step(doubted, PingMissed())[0]
    assert_table_holds(
        neighbours.TABLE,
        {neighbours.Phase.ALIVE: [alive], neighbours.Phase.DOUBTED: [doubted], neighbours.Phase.DEAD: [dead]},
        [PingAnswered(), PingMissed(), Left()],
        lambda state, event: neighbours.step(state, event)[0],
    )


@clause("7.9")
def test_two_misses_start_repair_once_and_a_return_starts_an_exchange() -> None:
    state, effects = meet(NODES[0])
    assert effects == (Exchange(NODES[0]),)
    seen: list[neighbours.Effect] = []
    for event in (PingMissed(), PingAnswered(), PingMissed(), PingMissed(), PingMissed(), Left(), PingAnswered()):
        state, effects = neighbours.step(state, event)
        seen += effects
    assert seen == [Repair(NODES[0]), Exchange(NODES[0])]
    assert state == Neighbour(node=NODES[0])


@clause("7.9")
def test_every_phase_of_a_round_meets_every_event() -> None:
    one, two = start(NODES[:1])[0], start(NODES[:2])[0]
    fetching = run(one, [ListsReceived(NODES[0], (A,))])[0]
    several = run(one, [ListsReceived(NODES[0], (A, B))])[0]
    assert_table_holds(
        sync_round.TABLE,
        {
            Phase.COMPARING: [one, two, run(two, [ListsReceived(NODES[1], (A,))])[0]],
            Phase.FETCHING: [fetching, several, run(two, [ListsReceived(node, (A,)) for node in NODES[:2]])[0]],
            Phase.FINISHED: [start(())[0]],
        },
        [
            ListsReceived(NODES[0], ()),
            ListsReceived(NODES[0], (A,)),
            NodeLost(NODES[0]),
            NodeLost(NODES[1]),
            BlockStored(A),
            BlockFailed(NODES[0], A),
            NodeLost(NODES[2]),
            sync_round.TimePassed(),
        ],
        lambda state, event: sync_round.step(state, event)[0],
    )


def test_a_lost_node_that_listed_something_does_not_stop_the_round() -> None:
    state, _ = run(start(NODES[:2])[0], [ListsReceived(NODES[0], (A,)), NodeLost(NODES[1])])
    assert state.phase is Phase.FETCHING


@clause("7.9")
def test_blobs_with_the_fewest_copies_are_fetched_first_from_the_best_holder() -> None:
    state, effects = start(NODES[:3])
    assert effects == tuple(SendHave(node) for node in NODES[:3])
    lists = [ListsReceived(NODES[0], (A,)), ListsReceived(NODES[1], (A, B)), ListsReceived(NODES[2], (A, B, C))]
    state, wants = run(state, lists)
    assert wants == [SendWant(NODES[2], C), SendWant(NODES[1], B), SendWant(NODES[0], A)]
    state, effects_2 = run(state, [BlockStored(C), BlockFailed(NODES[1], B)])
    assert effects_2 == [SendWant(NODES[2], B)]
    state, effects_2 = run(state, [NodeLost(NODES[0]), BlockFailed(NODES[2], B), BlockStored(A)])
    assert effects_2 == [SendWant(NODES[1], A), Finish(answered=3, asked=3, fetched=2, unfetched=1)]


def invented(blobs: int) -> tuple[Blob, ...]:
    return tuple(Blob(KEY, PayloadHash(number.to_bytes(32, "big"))) for number in range(blobs))


@clause("7.9", "7.12")
def test_a_neighbour_that_keeps_silent_for_what_it_lists_is_asked_sixteen_times() -> None:
    lies = invented(5_000)
    state, asked = run(start(NODES[:2])[0], [ListsReceived(NODES[0], (*lies, A)), ListsReceived(NODES[1], (A,))])
    wanted = [each.blob for each in asked if isinstance(each, SendWant)]
    for number in range(100):
        if state.phase is Phase.FINISHED or number >= len(wanted):
            break
        blob = wanted[number]
        event = BlockStored(blob) if blob == A else BlockFailed(NODES[0], blob)
        state, effects = sync_round.step(state, event)
        wanted += [each.blob for each in effects if isinstance(each, SendWant)]
    assert len(wanted) <= 2 * MOST_UNANSWERED + 1
    assert (state.phase, state.fetched, state.unfetched) == (Phase.FINISHED, 1, len(lies))


@clause("7.9")
def test_answers_after_which_a_blob_is_not_here_do_not_count_against_a_neighbour() -> None:
    some = invented(40)
    state, asked = run(start(NODES[:1])[0], [ListsReceived(NODES[0], some)])
    events: list[Event] = [BlockFailed(NODES[0], each, was_answered=True) for each in some[:39]]
    state, effects = run(state, events)
    assert sum(isinstance(each, SendWant) for each in (*asked, *effects)) == 40


@clause("7.9")
def test_a_slow_neighbour_holds_back_no_blob_of_the_others() -> None:
    many, few = invented(1_000), (A, B, C)
    _, asked = run(start(NODES[:2])[0], [ListsReceived(NODES[0], many), ListsReceived(NODES[1], few)])
    assert {each.blob for each in asked if isinstance(each, SendWant)} >= set(few)


@clause("7.9")
def test_a_round_that_takes_too_long_ends_and_says_who_has_more() -> None:
    some = invented(20)
    lists = [ListsReceived(NODES[0], some), ListsReceived(NODES[1], (A,)), ListsReceived(NODES[2], (), is_whole=False)]
    state, _ = run(start(NODES[:3])[0], [*lists, BlockStored(A), BlockStored(some[0])])
    ended, effects = sync_round.step(state, sync_round.TimePassed())
    [finish] = [each for each in effects if isinstance(each, Finish)]
    assert finish == Finish(answered=1, asked=3, fetched=2, unfetched=19)
    assert finish.leaves_some
    assert sync_round.step(ended, BlockStored(some[1]))[1] == ()


def test_deleted_blobs_are_not_missing() -> None:
    listed = {KEY: [A.payload_hash, B.payload_hash]}
    assert missing_blobs(listed, {KEY: frozenset({A.payload_hash})}) == (B,)


blobs = st.lists(st.sampled_from([A, B, C]), unique=True).map(tuple)
events = st.one_of(
    st.builds(ListsReceived, st.sampled_from(NODES), blobs),
    st.builds(NodeLost, st.sampled_from(NODES)),
    st.builds(BlockStored, st.sampled_from([A, B, C])),
    st.builds(BlockFailed, st.sampled_from(NODES), st.sampled_from([A, B, C]), st.booleans()),
    st.builds(sync_round.TimePassed),
)


@clause("7.9")
@given(st.lists(events, max_size=60), st.integers(0, 4))
def test_in_every_order_of_events_a_round_finishes_once_and_asks_no_holder_twice(
    happened: list[Event], peers: int
) -> None:
    state, first = start(NODES[:peers])
    state, effects = run(state, happened)
    wants = [(each.node, each.blob) for each in effects if isinstance(each, SendWant)]
    assert len(set(wants)) == len(wants)
    assert sum(isinstance(each, Finish) for each in (*first, *effects)) == (state.phase is Phase.FINISHED)


@clause("7.9")
def test_every_phase_of_serving_meets_every_event() -> None:
    leaving = Serving(phase=serving.Phase.LEAVING, leave_by_ms=NOW_MS)
    staying = Serving(phase=serving.Phase.LEAVING, leave_by_ms=NOW_MS + 1)
    assert_table_holds(
        serving.TABLE,
        {
            serving.Phase.SYNCING: [Serving()],
            serving.Phase.SERVING: [Serving(phase=serving.Phase.SERVING)],
            serving.Phase.LEAVING: [leaving, staying],
            serving.Phase.GONE: [Serving(phase=serving.Phase.GONE)],
        },
        [SyncFinished(3, 3), SyncFinished(2, 3), LeaveRequested(), NeighboursSynced(), TimePassed()],
        lambda state, event: serving.step(state, event, now_ms=NOW_MS)[0],
    )


@clause("7.5")
def test_a_node_is_complete_only_after_a_round_and_among_the_eight_closest() -> None:
    started = Serving()
    synced, _ = serving.step(started, SyncFinished(answered=15, asked=15), now_ms=NOW_MS)
    assert [is_complete(started, rank) for rank in (0, 7)] == [False, False]
    assert [is_complete(synced, rank) for rank in (0, 7, 8, None)] == [True, True, False, False]


@clause("7.9")
def test_a_leaving_node_withdraws_and_stays_until_its_blobs_are_safe_or_five_minutes() -> None:
    leaving, effects = serving.step(Serving(), LeaveRequested(), now_ms=NOW_MS)
    assert effects == (Withdraw(), WakeAt(NOW_MS + 300_000))
    assert serving.step(leaving, TimePassed(), now_ms=NOW_MS + 299_999) == (leaving, ())
    assert serving.step(leaving, TimePassed(), now_ms=NOW_MS + 300_000)[1] == (Stop(),)
    assert serving.step(leaving, NeighboursSynced(), now_ms=NOW_MS)[1] == (Stop(),)


@clause("7.10")
def test_a_node_takes_what_is_in_its_bucket_and_among_its_sixteen_closest() -> None:
    nodes = [node(number) for number in range(40)]
    index = PlacementIndex(nodes, now_ms=NOW_MS)
    order = place(index, KEY, 40)
    bucket = bucket_at(NOW_MS)
    near, far = order[15], order[16]
    assert check_put(index, near, key=KEY, bucket=bucket, now_ms=NOW_MS).take is Take.ACCEPT
    refused = check_put(index, far, key=KEY, bucket=bucket, now_ms=NOW_MS)
    assert (refused.take, list(refused.better)) == (Take.NOT_RESPONSIBLE, order[:16])
    wrong = check_put(index, near, key=KEY, bucket=bucket - 2, now_ms=NOW_MS)
    assert wrong.take is Take.WRONG_BUCKET
    assert check_block(index, near, key=KEY, bucket=bucket - 2, now_ms=NOW_MS).take is Take.ACCEPT
    assert check_block(index, far, key=KEY, bucket=bucket - 2, now_ms=NOW_MS).take is Take.NOT_RESPONSIBLE
    assert check_block(index, near, key=KEY, bucket=bucket, now_ms=NOW_MS + 31 * DAY_MS).take is Take.WRONG_BUCKET
