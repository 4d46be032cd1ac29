"""policy/circuits: hops of three families and networks, and few guards kept for long."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.error_codes import Code
from restante.model.node_descriptor import NodeDescriptor, Role
from restante.policy.circuits.guards import (
    ABSENT_MS,
    DAY_MS,
    GuardState,
    refresh_guards,
    sample_size,
    usable_guards,
)
from restante.policy.circuits.path import MeshTooSmall, NoPath, check_mesh, choose_path, usable_hops
from support.mesh.nodes import NOW_MS, node
from support.spec.clauses import clause


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - reproducible on purpose


def hops(count: int = 12, *, families: int | None = None, networks: int | None = None) -> list[NodeDescriptor]:
    return usable_hops(
        node(
            number,
            roles=Role.HOP,
            family=None if families is None else number % families,
            network=None if networks is None else number % networks,
            host=number + 1,
        )
        for number in range(count)
    )


@clause("11.1")
@given(st.integers(0, 2**32), st.integers(6, 40), st.integers(4, 12), st.integers(4, 12))
def test_three_hops_are_of_three_families_and_networks(seed: int, count: int, families: int, networks: int) -> None:
    listed = hops(max(count, families, networks), families=families, networks=networks)
    dice = seeded(seed)
    avoid = frozenset(each.node_id for each in dice.sample(listed, 1))
    try:
        path = choose_path(listed, listed, choose=dice.randrange, avoid=avoid)
    except NoPath:
        return
    assert len({each.family for each in path.hops}) == 3
    assert len({network for each in path.hops for network in each.networks}) == 3
    assert avoid.isdisjoint(each.node_id for each in path.hops)


@clause("11.1")
@pytest.mark.parametrize(
    ("listed", "says"),
    [
        (hops(5), "5 reachable nodes"),
        (hops(12, families=3), "3 families"),
        (hops(12, networks=3), "3 networks"),
    ],
)
def test_a_mesh_too_small_is_e002(listed: list[NodeDescriptor], says: str) -> None:
    with pytest.raises(MeshTooSmall, match=f"mesh too small for circuits: .*{says}") as raised:
        check_mesh(listed)
    assert raised.value.code is Code.CIRCUIT_BUILD_FAILED


def test_a_private_network_lifts_families_and_networks_but_not_the_number() -> None:
    check_mesh(hops(6, families=1, networks=1), is_private=True)
    with pytest.raises(MeshTooSmall):
        check_mesh(hops(5), is_private=True)


def test_nodes_without_the_role_are_no_hops() -> None:
    assert usable_hops([node(1, roles=Role.STORAGE), node(2, roles=Role.STORAGE | Role.HOP)]) == [
        node(2, roles=Role.STORAGE | Role.HOP)
    ]


@clause("11.6")
def test_the_exit_is_outside_the_storing_nodes_where_there_is_a_choice() -> None:
    listed = hops(12)
    storing = frozenset(each.node_id for each in listed[:5])
    dice = seeded(1)
    exits = {choose_path(listed, listed, choose=dice.randrange, prefer_not=storing).exit.node_id for _ in range(60)}
    assert exits.isdisjoint(storing)
    assert len(exits) == 7
    everyone = frozenset(each.node_id for each in listed)
    assert choose_path(listed, listed, choose=dice.randrange, prefer_not=everyone).exit in listed


@clause("11.1")
def test_the_guard_in_use_is_reached_through_another_guard() -> None:
    listed = hops(12)
    first, second = listed[0], listed[1]
    path = choose_path(listed, [first, second], choose=lambda _n: 0, avoid=frozenset({first.node_id}))
    assert path.guard is second


def test_no_path_is_left_when_all_guards_are_excluded() -> None:
    listed = hops(12)
    with pytest.raises(NoPath):
        choose_path(listed, listed[:1], choose=lambda _n: 0, avoid=frozenset({listed[0].node_id}))


@clause("11.4")
@pytest.mark.parametrize(("nodes", "size"), [(6, 3), (15, 3), (40, 8), (100, 20), (1_000, 20)])
def test_the_sample_is_a_fifth_of_the_hops_between_three_and_twenty(nodes: int, size: int) -> None:
    assert sample_size(nodes) == size


@clause("11.4")
def test_three_guards_are_kept_for_60_to_90_days_whatever_the_directory_adds() -> None:
    dice = seeded(4)
    state = refresh_guards(GuardState(), hops(30), now_ms=NOW_MS, choose=dice.randrange)
    assert len(state.guards) == 3
    assert all(60 * DAY_MS <= each.kept_until_ms - NOW_MS <= 90 * DAY_MS for each in state.guards)
    assert {each.node_id for each in state.guards} <= set(state.sample)
    ids = [each.node_id for each in state.guards]
    for day in range(1, 60):
        state = refresh_guards(state, hops(30 + day), now_ms=NOW_MS + day * DAY_MS, choose=dice.randrange)
        assert [each.node_id for each in state.guards] == ids
    later = refresh_guards(state, hops(90), now_ms=NOW_MS + 91 * DAY_MS, choose=dice.randrange)
    assert len(later.guards) == 3
    assert not set(ids) & {each.node_id for each in later.guards}


@clause("11.4")
def test_a_guard_that_vanishes_is_replaced_only_after_a_week() -> None:
    dice = seeded(4)
    listed = hops(30)
    state = refresh_guards(GuardState(), listed, now_ms=NOW_MS, choose=dice.randrange)
    gone = state.guards[0].node_id
    without = [each for each in listed if each.node_id != gone]
    soon = refresh_guards(state, without, now_ms=NOW_MS + ABSENT_MS - 1, choose=dice.randrange)
    assert gone in {each.node_id for each in soon.guards}
    assert gone not in {each.node_id for each in usable_guards(soon, without, failed_at_ms={}, now_ms=NOW_MS)}
    late = refresh_guards(state, without, now_ms=NOW_MS + ABSENT_MS, choose=dice.randrange)
    assert gone not in {each.node_id for each in late.guards}
    assert len(late.guards) == 3


def test_guards_are_of_different_families_and_networks() -> None:
    for seed in range(20):
        state = refresh_guards(
            GuardState(), hops(40, families=6, networks=7), now_ms=NOW_MS, choose=seeded(seed).randrange
        )
        listed = {each.node_id: each for each in hops(40, families=6, networks=7)}
        chosen = [listed[each.node_id] for each in state.guards]
        assert len({each.family for each in chosen}) == len(chosen) == 3


@clause("11.4")
def test_the_first_guard_is_in_use_and_one_that_failed_comes_last_for_ten_minutes() -> None:
    listed = hops(30)
    state = refresh_guards(GuardState(), listed, now_ms=NOW_MS, choose=seeded(4).randrange)
    order = [each.node_id for each in state.guards]
    failed = {order[0]: NOW_MS}
    now = [each.node_id for each in usable_guards(state, listed, failed_at_ms=failed, now_ms=NOW_MS + 1)]
    later = [each.node_id for each in usable_guards(state, listed, failed_at_ms=failed, now_ms=NOW_MS + 600_000)]
    assert now == [order[1], order[2], order[0]]
    assert later == order


@clause("11.4")
def test_of_guards_that_all_failed_the_one_whose_failure_is_oldest_comes_first() -> None:
    listed = hops(20)
    state = refresh_guards(GuardState(), listed, now_ms=NOW_MS, choose=seeded(4).randrange)
    order = [each.node_id for each in state.guards]
    failed = {order[0]: NOW_MS + 300_000, order[1]: NOW_MS, order[2]: NOW_MS + 60_000}
    now = [each.node_id for each in usable_guards(state, listed, failed_at_ms=failed, now_ms=NOW_MS + 300_001)]
    assert now == [order[1], order[2], order[0]]


def test_every_hop_may_become_a_guard() -> None:
    listed = hops(10)
    chosen = Counter(
        guard.node_id
        for seed in range(300)
        for guard in refresh_guards(GuardState(), listed, now_ms=NOW_MS, choose=seeded(seed).randrange).guards
    )
    assert len(chosen) == 10
    assert max(chosen.values()) < 2 * min(chosen.values())


def test_a_state_that_names_no_listed_node_is_filled() -> None:
    state = refresh_guards(GuardState(), hops(30), now_ms=NOW_MS, choose=seeded(1).randrange)
    old = replace(state, sample=())
    assert refresh_guards(old, hops(30), now_ms=NOW_MS, choose=seeded(1).randrange).sample
