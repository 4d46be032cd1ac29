"""core/directory: the routing table, the descriptors and the download of all of them."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.directory import download, routing_table
from restante.core.directory.descriptor_set import TABLE, DescriptorSet, DirectoryLimits, Phase, Verdict
from restante.core.directory.download import AskDirectory, CopyFailed, CopyReceived, Source
from restante.core.directory.routing_table import (
    Dial,
    DialFailed,
    Dialled,
    Expired,
    Heard,
    Ping,
    PingMissed,
    RoutingTable,
    Seen,
    TableLimits,
)
from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from support.mesh.nodes import HOURS_2_MS, NOW_MS, node
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

EVENTS: list[routing_table.Event] = [Heard(), Dialled(), DialFailed(), Seen(), PingMissed(), Expired()]
OWN = node(9_999).position


def far(count: int, *, network: int | None = None) -> list[NodeDescriptor]:
    """Nodes of the farthest bucket, which half of all ids belong to."""
    found = [node(number, network=network) for number in range(4 * count)]
    return [each for each in found if (each.position ^ OWN) >> 255][:count]


def enter(table: RoutingTable, descriptor: NodeDescriptor) -> tuple[routing_table.Effect, ...]:
    if table.step(descriptor, Heard()) == (Dial(descriptor),):
        return table.step(descriptor, Dialled())
    return ()


@clause("7.1")
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", routing_table.Phase)
def test_every_phase_of_a_contact_meets_every_event(phase: routing_table.Phase, event: routing_table.Event) -> None:
    seen = set()
    for is_full in (False, True):
        table, (subject, *others) = RoutingTable(OWN), far(23)
        if phase is routing_table.Phase.PINGED:
            enter(table, subject)
        elif is_full:
            for each in others[:20]:
                enter(table, each)
            enter(table, others[20])
        if phase is routing_table.Phase.CHECKING:
            table = RoutingTable(OWN)
            for each in others[: 20 if is_full else 0]:
                enter(table, each)
            table.step(subject, Heard())
        elif phase is routing_table.Phase.LISTED:
            table = RoutingTable(OWN)
            enter(table, subject)
        elif phase is routing_table.Phase.PINGED:
            for each in others[:20]:
                enter(table, each)
        assert table.phase_of(subject) is phase
        table.step(subject, event)
        seen.add(table.phase_of(subject))
    assert seen == routing_table.TABLE[phase][type(event)]


@clause("7.1")
def test_a_node_enters_only_after_it_was_dialled() -> None:
    table, (first, second) = RoutingTable(OWN), far(2)
    assert table.step(first, Heard()) == (Dial(first),)
    assert len(table) == 0
    table.step(first, Dialled())
    table.step(second, Heard())
    table.step(second, DialFailed())
    assert list(table) == [first]


@clause("7.1")
def test_a_full_bucket_keeps_a_living_node_and_drops_a_dead_one() -> None:
    table, nodes = RoutingTable(OWN), far(23)
    for each in nodes[:20]:
        enter(table, each)
    assert enter(table, nodes[20]) == (Ping(nodes[0]),)
    table.step(nodes[0], Seen())
    assert nodes[20] not in list(table)
    assert enter(table, nodes[21]) == (Ping(nodes[1]),)
    table.step(nodes[1], PingMissed())
    assert nodes[1] not in list(table)
    assert nodes[21] in list(table)
    assert len(table) == 20


@clause("7.1", "7.12")
def test_a_flood_of_new_nodes_replaces_nobody_who_answers() -> None:
    table, nodes = RoutingTable(OWN), far(300)
    for each in nodes[:20]:
        enter(table, each)
    for each in nodes[20:]:
        for effect in enter(table, each):
            assert isinstance(effect, Ping)
            table.step(effect.node, Seen())
    assert set(map(id, table)) == set(map(id, nodes[:20]))


@clause("7.1")
def test_one_network_has_two_nodes_in_a_bucket_and_three_in_a_table() -> None:
    table = RoutingTable(OWN)
    crowd = [node(number, network=7) for number in range(200)]
    for each in crowd:
        enter(table, each)
    assert len(table) == 3
    assert max(table.bucket_sizes().values()) <= 2
    private = RoutingTable(OWN, TableLimits(per_network_in_bucket=1_000, per_network_in_table=1_000))
    for each in crowd:
        enter(private, each)
    assert len(private) > 20


def test_the_own_descriptor_never_enters_the_table() -> None:
    assert RoutingTable(OWN).step(node(9_999), Heard()) == ()


@clause("7.12")
def test_at_most_64_dials_are_under_way_for_what_strangers_tell() -> None:
    table = RoutingTable(OWN)
    dialled = [each for number in range(500) if (each := table.step(node(number), Heard()))]
    assert len(dialled) == 64


@clause("7.1")
@given(st.randoms(use_true_random=False), st.binary(min_size=32, max_size=32))
def test_the_closest_are_those_of_the_whole_table(dice: random.Random, key: bytes) -> None:
    table = RoutingTable(OWN)
    for number in dice.sample(range(500), 100):
        enter(table, node(number))
    target = int.from_bytes(key, "big")
    assert table.closest(target, 20) == sorted(table, key=lambda each: each.position ^ target)[:20]


def test_a_newer_descriptor_replaces_the_listed_one() -> None:
    table, old = RoutingTable(OWN), node(1)
    enter(table, old)
    table.step(node(1, issued_at_ms=NOW_MS + 5), Seen())
    table.step(old, Seen())
    assert [each.issued_at_ms for each in table] == [NOW_MS + 5]


offers = st.lists(
    st.builds(
        node,
        st.integers(0, 3),
        issued_at_ms=st.integers(-3, 3).map(lambda hours: NOW_MS + hours * 3_600_000 // 2),
        ttl_ms=st.sampled_from([HOURS_2_MS, 0]),
    ),
    max_size=12,
)


@clause("7.1")
@given(offers, st.integers(0, 4))
def test_offers_lead_from_phase_to_phase_as_the_table_says(offered: list[NodeDescriptor], hours: int) -> None:
    held = DescriptorSet()
    for number, each in enumerate(offered):
        now_ms = NOW_MS + number * hours * 600_000
        before = held.phase_of(each.node_id, now_ms=now_ms)
        verdict = held.offer(each, now_ms=now_ms).verdict
        assert held.phase_of(each.node_id, now_ms=now_ms) in TABLE[before][verdict]


@clause("7.1")
@given(offers, st.randoms(use_true_random=False))
def test_the_highest_issue_wins_in_whatever_order_they_come(offered: list[NodeDescriptor], dice: random.Random) -> None:
    current = [
        each for each in offered if NOW_MS - HOURS_2_MS < each.issued_at_ms <= NOW_MS and each.expires_at_ms > NOW_MS
    ]
    shuffled = current.copy()
    dice.shuffle(shuffled)
    first, second = DescriptorSet(), DescriptorSet()
    for each in current:
        first.offer(each, now_ms=NOW_MS)
    for each in shuffled:
        second.offer(each, now_ms=NOW_MS)
    newest: dict[NodeId, int] = {}
    for each in current:
        newest[each.node_id] = max(each.issued_at_ms, newest.get(each.node_id, 0))
    assert {each.node_id: each.issued_at_ms for each in first} == newest
    assert first.digest == second.digest


@clause("7.1")
def test_each_verdict_has_its_reason() -> None:
    held, first = DescriptorSet(), node(1)
    assert held.offer(first, now_ms=NOW_MS).verdict is Verdict.NEW
    assert held.offer(first, now_ms=NOW_MS).verdict is Verdict.KNOWN
    assert held.offer(node(1, issued_at_ms=NOW_MS - 1), now_ms=NOW_MS).verdict is Verdict.OLDER
    assert held.offer(node(1, issued_at_ms=NOW_MS + 600_001), now_ms=NOW_MS).verdict is Verdict.AHEAD
    assert held.offer(node(2, issued_at_ms=NOW_MS - HOURS_2_MS), now_ms=NOW_MS).verdict is Verdict.EXPIRED
    assert held.offer(node(2, ttl_ms=HOURS_2_MS + 1), now_ms=NOW_MS).verdict is Verdict.AHEAD
    newer = held.offer(node(1, issued_at_ms=NOW_MS + 600_000), now_ms=NOW_MS)
    assert (newer.verdict, newer.replaced) == (Verdict.NEW, first)


@clause("7.9")
def test_a_node_that_leaves_is_withdrawn_and_an_older_issue_does_not_bring_it_back() -> None:
    held = DescriptorSet()
    held.offer(node(1), now_ms=NOW_MS)
    assert held.offer(node(1, issued_at_ms=NOW_MS + 1, ttl_ms=0), now_ms=NOW_MS + 1).verdict is Verdict.NEW
    assert held.valid(now_ms=NOW_MS + 1) == []
    assert held.offer(node(1), now_ms=NOW_MS + 2).verdict is Verdict.OLDER
    assert held.phase_of(node(1).node_id, now_ms=NOW_MS + 2) is Phase.EXPIRED


@clause("7.1", "7.12")
def test_a_network_has_at_most_16_descriptors_and_a_directory_a_bound() -> None:
    held = DescriptorSet()
    verdicts = [held.offer(node(number, network=5), now_ms=NOW_MS).verdict for number in range(20)]
    assert verdicts == [Verdict.NEW] * 16 + [Verdict.CROWDED] * 4
    assert held.offer(node(3, network=5, issued_at_ms=NOW_MS + 1), now_ms=NOW_MS).verdict is Verdict.NEW
    small = DescriptorSet(DirectoryLimits(descriptors=2))
    assert [small.offer(node(number), now_ms=NOW_MS).verdict for number in range(3)][-1] is Verdict.CROWDED


def test_expired_descriptors_are_dropped_after_their_issue_can_no_longer_return() -> None:
    held = DescriptorSet()
    held.offer(node(1), now_ms=NOW_MS)
    empty = DescriptorSet().digest
    assert held.drop_expired(now_ms=NOW_MS + 2 * HOURS_2_MS - 1) == []
    assert held.drop_expired(now_ms=NOW_MS + 2 * HOURS_2_MS) == [node(1)]
    assert (len(held), held.digest) == (0, empty)


@given(st.integers(0, 30), st.integers(1, 10))
def test_pages_hold_every_descriptor_once(count: int, size: int) -> None:
    held = DescriptorSet()
    for number in range(count):
        held.offer(node(number), now_ms=NOW_MS)
    cursor: int | None = 0
    seen: list[NodeId] = []
    while cursor is not None:
        page, cursor = held.page(cursor, size)
        seen += [each.node_id for each in page]
    assert seen == sorted(each.node_id for each in held)


SOURCES = [Source(NodeId(bytes([number]) * 32), bytes([number // 2])) for number in range(10)]


@clause("7.1")
def test_every_phase_of_a_download_meets_every_event() -> None:
    asking = download.start(SOURCES)[0]
    almost = replace(asking, asked=asking.asked[:1], left=(), families=frozenset({b"x", b"y"}))
    last = replace(asking, asked=asking.asked[:1], left=())
    assert_table_holds(
        download.TABLE,
        {
            download.Phase.ASKING: [asking, almost, last],
            download.Phase.WHOLE: [replace(asking, phase=download.Phase.WHOLE)],
            download.Phase.PARTIAL: [replace(asking, phase=download.Phase.PARTIAL)],
        },
        [CopyReceived(SOURCES[0].node), CopyFailed(SOURCES[0].node), CopyFailed(SOURCES[9].node)],
        lambda state, event: download.step(state, event)[0],
    )
    assert download.step(almost, CopyReceived(SOURCES[0].node))[0].phase is download.Phase.WHOLE
    assert download.step(last, CopyFailed(SOURCES[0].node))[0].phase is download.Phase.PARTIAL
    assert download.step(asking, CopyFailed(SOURCES[0].node))[0].phase is download.Phase.ASKING


@clause("7.1")
def test_a_directory_is_the_union_from_three_families() -> None:
    state, effects = download.start(SOURCES)
    assert [each.node for each in effects if isinstance(each, AskDirectory)] == [SOURCES[n].node for n in (0, 2, 4)]
    state, effects = download.step(state, CopyFailed(SOURCES[0].node))
    assert effects == (AskDirectory(SOURCES[1].node),)
    for number in (2, 4, 1):
        state, effects = download.step(state, CopyReceived(SOURCES[number].node))
    assert effects == (download.Finish(3),)
    assert state.phase is download.Phase.WHOLE


@clause("7.1")
def test_nodes_of_further_networks_are_asked_first_and_others_only_if_none_is_left() -> None:
    here, there = frozenset({b"here"}), frozenset({b"there"})
    crowd = [Source(NodeId(bytes([number]) * 32), bytes([number]), here) for number in range(4)]
    far = Source(NodeId(b"f" * 32), b"f", there)
    state, effects = download.start([*crowd, far])
    assert effects == (AskDirectory(crowd[0].node), AskDirectory(far.node), AskDirectory(crowd[1].node))
    for source in (crowd[0], far, crowd[1]):
        state, effects = download.step(state, CopyReceived(source.node))
    assert state.phase is download.Phase.WHOLE
