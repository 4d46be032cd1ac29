"""All interleavings of a small mesh over the real machines: what reached its quorum is read, once."""

from itertools import combinations

import pytest

from support.model.mesh_exploration import explore
from support.model.mesh_world import Rules, World, stored_world
from support.spec.clauses import clause

STATES_OF_WRITING = 4_000
STATES_IN_MAKE_EXPLORE = 1_000_000
UNREAD = "a bucket is final, and a living node holds unread mail in it"
ALWAYS_COMPLETE = Rules(complete=lambda _serving, rank: rank is not None)


@clause("7.3")
def test_writing_with_crashes_and_losses_breaks_no_promise() -> None:
    result = explore(Rules(), max_states=STATES_OF_WRITING, start=World(crashes=2))
    assert result.broken == []


@clause("7.5", "7.9")
@pytest.mark.parametrize("nodes", [pytest.param(4, marks=pytest.mark.soak, id="4 and a join"), 5])
def test_what_reached_its_quorum_and_has_a_living_holder_is_never_finalized_unread(nodes: int) -> None:
    result = explore(Rules(), max_states=STATES_IN_MAKE_EXPLORE, start=stored_world((0, 1), nodes=nodes, crashes=1))
    assert result.is_exhausted
    assert result.broken == []


@clause("7.5")
@pytest.mark.parametrize("nodes", [pytest.param(4, marks=pytest.mark.soak, id="4 and a join"), 5])
def test_a_node_that_is_complete_without_having_synced_breaks_it(nodes: int) -> None:
    result = explore(
        ALWAYS_COMPLETE, max_states=STATES_IN_MAKE_EXPLORE, start=stored_world((0, 1), nodes=nodes, crashes=1)
    )
    assert result.broken == [UNREAD]


@clause("7.5")
def test_a_node_that_synced_with_two_thirds_of_its_neighbours_breaks_it() -> None:
    rules = Rules(is_round_enough=lambda answered, asked: 3 * answered >= 2 * asked)
    result = explore(rules, max_states=100_000, start=stored_world((0, 1), nodes=5, crashes=1))
    assert result.broken == [UNREAD]


@clause("7.5")
@pytest.mark.parametrize("crashes", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_partition_that_is_over_by_the_second_read_breaks_nothing(crashes: int) -> None:
    start = stored_world((0, 1), nodes=5, crashes=crashes, is_parted=True)
    result = explore(Rules(), max_states=STATES_IN_MAKE_EXPLORE, start=start)
    assert result.is_exhausted
    assert result.ended
    assert result.broken == []


@clause("7.4", "7.9")
@pytest.mark.parametrize("crashes", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_received_message_is_never_received_again_nor_held_again_where_it_was_deleted(crashes: int) -> None:
    """The recipient reads the copy on its side of a partition; the one on the other side missed the DELETE."""
    start = stored_world((0, 3), nodes=5, crashes=crashes, is_parted=True)
    result = explore(Rules(), max_states=STATES_IN_MAKE_EXPLORE, start=start, follows_received=True)
    assert result.is_exhausted
    assert result.finals
    assert result.broken == []


@clause("7.3", "7.5", "7.9")
@pytest.mark.soak
@pytest.mark.parametrize("holders", list(combinations(range(5), 2)))
def test_the_same_for_any_two_holders_and_two_crashes(holders: tuple[int, int]) -> None:
    nodes = 5 if 4 in holders else 4
    start = stored_world(holders, nodes=nodes, crashes=2)
    result = explore(Rules(), max_states=STATES_IN_MAKE_EXPLORE, start=start)
    assert result.broken == []


@clause("7.3", "7.5", "7.9")
@pytest.mark.soak
def test_the_same_from_the_first_put_on() -> None:
    assert explore(Rules(), max_states=STATES_IN_MAKE_EXPLORE).broken == []
