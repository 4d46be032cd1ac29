"""core/lookup: iterative, three at a time, and not held up by slow or lying nodes."""

import random

from hypothesis import given
from hypothesis import strategies as st

from restante.core import lookup
from restante.core.lookup import ALPHA, Ask, AskDelayed, AskFailed, Finish, Lookup, NodesAnswered, Phase, start
from restante.model.ids import NodeId
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

TARGET = bytes(32)


def node(number: int) -> NodeId:
    """Numbers are distances to the target."""
    return NodeId(number.to_bytes(32, "big"))


def asked(effects: tuple[lookup.Effect, ...]) -> list[int]:
    return [int.from_bytes(each.node, "big") for each in effects if isinstance(each, Ask)]


@clause("7.1")
def test_every_phase_meets_every_event() -> None:
    searching = start(TARGET, [node(9)], want=2)[0]
    two = start(TARGET, [node(8), node(9)], want=2)[0]
    answered = lookup.step(two, NodesAnswered(node(8), ()))[0]
    found = lookup.step(searching, NodesAnswered(node(9), ()))[0]
    failed = lookup.step(searching, AskFailed(node(9)))[0]
    assert_table_holds(
        lookup.TABLE,
        {Phase.SEARCHING: [searching, two, answered], Phase.FOUND: [found], Phase.FAILED: [failed]},
        [NodesAnswered(node(9), ()), NodesAnswered(node(9), (node(1),)), AskFailed(node(9)), AskDelayed(node(9))],
        lambda state, event: lookup.step(state, event)[0],
    )


@clause("7.1")
def test_three_of_the_closest_are_asked_at_a_time() -> None:
    state, effects = start(TARGET, [node(number) for number in range(10, 30)], want=5)
    assert asked(effects) == [10, 11, 12]
    state, effects = lookup.step(state, NodesAnswered(node(11), (node(3), node(4))))
    assert asked(effects) == [3]


@clause("7.1")
def test_it_ends_when_the_closest_have_answered() -> None:
    state, _ = start(TARGET, [node(10), node(11)], want=2)
    state, _ = lookup.step(state, NodesAnswered(node(10), (node(1), node(2))))
    state, effects = lookup.step(state, NodesAnswered(node(1), (node(10),)))
    assert state.phase is Phase.SEARCHING
    state, effects = lookup.step(state, NodesAnswered(node(2), ()))
    assert effects == (Finish((node(1), node(2))),)
    assert state.rounds == 1


def test_a_slow_node_frees_its_place_and_may_still_answer() -> None:
    state, _ = start(TARGET, [node(number) for number in range(1, 9)], want=3)
    state, effects = lookup.step(state, AskDelayed(node(1)))
    assert asked(effects) == [4]
    state, _ = lookup.step(state, NodesAnswered(node(2), ()))
    state, _ = lookup.step(state, NodesAnswered(node(3), ()))
    state, effects = lookup.step(state, NodesAnswered(node(1), ()))
    assert effects == (Finish((node(1), node(2), node(3))),)


def test_an_answer_that_was_not_asked_for_changes_nothing() -> None:
    state, _ = start(TARGET, [node(5)], want=1)
    assert lookup.step(state, NodesAnswered(node(7), (node(1),))) == (state, ())


def test_an_answer_with_too_many_contacts_is_cut() -> None:
    state, _ = start(TARGET, [node(1000)], want=5)
    state, _ = lookup.step(state, NodesAnswered(node(1000), tuple(node(number) for number in range(1, 500))))
    assert len(state.known) == 21


@clause("7.1", "7.12")
@given(st.randoms(use_true_random=False), st.integers(1, 200), st.integers(1, 10))
def test_in_a_connected_network_it_finds_the_closest_living_nodes(dice: random.Random, size: int, want: int) -> None:
    nodes = sorted(NodeId(dice.randbytes(32)) for _ in range(size))
    target = dice.randbytes(32)

    def by_distance(nodes: list[NodeId]) -> list[NodeId]:
        goal = int.from_bytes(target, "big")
        return sorted(nodes, key=lambda each: int.from_bytes(each, "big") ^ goal)

    dead = set(dice.sample(nodes, size // 4))
    waiting: list[NodeId] = []
    first = dice.sample(nodes, min(size, 20))
    state, effects = start(target, first, want=want)
    while state.phase is Phase.SEARCHING:
        waiting += [each.node for each in effects if isinstance(each, Ask)]
        assert sum(each.asked is lookup.Asked.WAITING for each in state.known) <= ALPHA
        chosen = waiting.pop(dice.randrange(len(waiting)))
        if chosen in dead:
            state, effects = lookup.step(state, AskFailed(chosen))
        else:
            # Every node knows its 20 closest to the target: a full directory.
            state, effects = lookup.step(state, NodesAnswered(chosen, tuple(by_distance(nodes)[:20])))
    finish = effects[-1]
    assert isinstance(finish, Finish)
    _assert_closest(state, finish, by_distance([each for each in nodes if each not in dead]), set(first), want)


def _assert_closest(state: Lookup, finish: Finish, living: list[NodeId], first: set[NodeId], want: int) -> None:
    if not set(living) & first:
        assert state.phase is Phase.FAILED
        return
    known = {each.node for each in state.known}
    reachable = [each for each in living if each in known]
    assert list(finish.closest) == reachable[: len(finish.closest)]
    assert len(finish.closest) == min(want, len(reachable))
