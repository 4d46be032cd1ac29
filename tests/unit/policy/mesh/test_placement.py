"""policy/mesh/placement: the same nodes for everybody who holds the same directory."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.node_descriptor import NodeDescriptor, Role
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN, PlacementIndex, neighbours_of, place, rank_of
from support.mesh.nodes import HOURS_2_MS, NOW_MS, node
from support.spec.clauses import clause

keys = st.binary(min_size=32, max_size=32)
directories = st.lists(
    st.builds(
        node,
        st.integers(0, 10_000),
        family=st.none() | st.integers(0, 8),
        network=st.none() | st.integers(0, 8),
        roles=st.sampled_from([Role.STORAGE, Role.STORAGE | Role.HOP, Role.HOP]),
    ),
    max_size=60,
    unique_by=lambda each: each.node_id,
)


def by_definition(nodes: list[NodeDescriptor], key: bytes, count: int) -> list[NodeDescriptor]:
    """SPEC 7.3 read aloud, over all nodes."""
    target = int.from_bytes(key, "big")
    storage = sorted((each for each in nodes if Role.STORAGE in each.roles), key=lambda each: each.position ^ target)
    chosen: list[NodeDescriptor] = []
    for each in storage:
        if all(each.family != other.family and not each.networks & other.networks for other in chosen):
            chosen.append(each)
    return (chosen + [each for each in storage if each not in chosen])[:count]


@clause("7.3")
@given(directories, keys, st.integers(1, 20))
def test_placement_walks_outward_and_spreads_over_families_and_networks(
    nodes: list[NodeDescriptor], key: bytes, count: int
) -> None:
    index = PlacementIndex(nodes, now_ms=NOW_MS)
    assert place(index, key, count) == by_definition(nodes, key, count)


@clause("7.3")
@given(directories, keys, st.randoms(use_true_random=False))
def test_the_order_of_the_directory_does_not_matter(
    nodes: list[NodeDescriptor], key: bytes, dice: random.Random
) -> None:
    shuffled = nodes.copy()
    dice.shuffle(shuffled)
    assert place(PlacementIndex(nodes, now_ms=NOW_MS), key) == place(PlacementIndex(shuffled, now_ms=NOW_MS), key)


@clause("7.3")
@given(directories, keys, st.integers(1, 12))
def test_a_larger_count_only_appends(nodes: list[NodeDescriptor], key: bytes, count: int) -> None:
    index = PlacementIndex(nodes, now_ms=NOW_MS)
    assert place(index, key, count + 5)[:count] == place(index, key, count)


@clause("7.3")
def test_a_mesh_of_one_family_in_one_network_still_stores_on_five_nodes() -> None:
    nodes = [node(number, family=1, network=1) for number in range(8)]
    assert len(place(PlacementIndex(nodes, now_ms=NOW_MS), bytes(32))) == 5


@clause("7.1")
def test_an_expired_descriptor_is_in_no_placement() -> None:
    nodes = [node(1), node(2, issued_at_ms=NOW_MS - HOURS_2_MS), node(3, issued_at_ms=NOW_MS - HOURS_2_MS + 1)]
    placed = place(PlacementIndex(nodes, now_ms=NOW_MS), bytes(32))
    assert {each.node_id for each in placed} == {nodes[0].node_id, nodes[2].node_id}


@clause("7.3", "7.10")
@given(directories, keys)
def test_the_rank_is_the_place_in_the_same_order(nodes: list[NodeDescriptor], key: bytes) -> None:
    index = PlacementIndex(nodes, now_ms=NOW_MS)
    order = place(index, key, 16)
    for each in nodes:
        expected = order.index(each) if each in order else None
        assert rank_of(index, key, each, within=16) == expected


@pytest.mark.parametrize("count", [0, 1, 2])
def test_small_directories_give_what_they_have(count: int) -> None:
    index = PlacementIndex([node(number) for number in range(count)], now_ms=NOW_MS)
    assert len(index) == len(place(index, bytes(32))) == count


@clause("7.9")
@given(directories)
def test_neighbours_are_the_closest_to_a_node_with_and_without_regard_to_families(nodes: list[NodeDescriptor]) -> None:
    own = node(20_000, family=1, network=1)
    everyone = [own, *nodes]
    storage = [each for each in everyone if Role.STORAGE in each.roles]
    nearest = sorted(storage, key=lambda each: each.position ^ own.position)[: RESPONSIBLE_WITHIN + 1]
    apart = by_definition(everyone, own.node_id, RESPONSIBLE_WITHIN + 1)
    found = neighbours_of(PlacementIndex(everyone, now_ms=NOW_MS), own)
    assert {each.node_id for each in found} == {each.node_id for each in [*nearest, *apart]} - {own.node_id}
    assert len(found) == len({each.node_id for each in found})
