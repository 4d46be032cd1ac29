"""policy/scoring: where a message is stored."""

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import LocalProtocolError, Malformed, OutOfRange
from restante.model.ids import InboxKey, NodeId
from restante.policy.scoring import (
    READ_QUORUM,
    REPLICATION,
    WRITE_QUORUM,
    Candidate,
    choose_storage_nodes,
    distance,
    quorum_reached,
    score,
)
from support.spec.clauses import clause

KEY = InboxKey(bytes(32))


def node(number: int, *, uptime: float = 1.0, bandwidth_bps: int = 1_000, latency_ms: float = 10) -> Candidate:
    """A node at distance `number` from KEY."""
    return Candidate(
        node_id=NodeId(number.to_bytes(32, "big")),
        uptime=uptime,
        bandwidth_bps=bandwidth_bps,
        latency_ms=latency_ms,
    )


candidates = st.lists(
    st.builds(
        Candidate,
        node_id=st.integers(0, 40).map(lambda number: NodeId(hashlib.sha256(bytes([number])).digest())),
        uptime=st.floats(0, 1),
        bandwidth_bps=st.integers(0, 10**15),
        latency_ms=st.floats(0, 3_600_000),
    ),
    max_size=12,
    unique_by=lambda candidate: candidate.node_id,
)


@clause("7.3")
def test_replication_is_three_with_a_write_quorum_of_two_and_a_read_quorum_of_one() -> None:
    assert (REPLICATION, WRITE_QUORUM, READ_QUORUM) == (3, 2, 1)
    assert [quorum_reached(stored) for stored in range(4)] == [False, False, True, True]


@clause("7.3")
def test_uptime_weighs_four_tenths_and_bandwidth_and_latency_three_each() -> None:
    best = node(1, uptime=1, bandwidth_bps=1_000, latency_ms=10)
    others = [
        (node(2, uptime=0.0, bandwidth_bps=1_000, latency_ms=10), 0.6),
        (node(3, uptime=1.0, bandwidth_bps=0, latency_ms=10), 0.7),
        (node(4, uptime=1.0, bandwidth_bps=1_000, latency_ms=40), 0.775),
        (node(5, uptime=0.5, bandwidth_bps=500, latency_ms=20), 0.5),
    ]
    assert score(best, [best]) == 1.0
    for other, expected in others:
        assert score(other, [best, other]) == pytest.approx(expected)


@clause("7.3")
def test_the_three_best_of_the_five_closest_are_chosen_best_first() -> None:
    far_and_perfect = node(100)
    near = [node(number, uptime=uptime) for number, uptime in enumerate([0.1, 0.9, 0.2, 0.8, 0.7], start=1)]
    chosen = choose_storage_nodes([far_and_perfect, *near], KEY)
    assert chosen == [near[1], near[3], near[4]]


@clause("7.3")
def test_a_node_too_far_away_does_not_change_how_the_near_ones_compare() -> None:
    near = [node(1, uptime=0.5, bandwidth_bps=100), node(2, uptime=0.6, bandwidth_bps=50)]
    filler = [node(number, uptime=0, bandwidth_bps=0, latency_ms=1_000) for number in (3, 4, 5)]
    # Beside a node of a million, 100 and 50 would both be next to nothing and uptime alone would decide.
    far = node(100, bandwidth_bps=1_000_000)
    assert choose_storage_nodes([*near, *filler, far], KEY, count=1) == [near[0]]


@clause("7.3")
def test_equal_scores_are_decided_by_distance() -> None:
    assert choose_storage_nodes([node(number) for number in (5, 3, 1, 4, 2)], KEY) == [node(1), node(2), node(3)]


@clause("7.3")
def test_distance_is_the_exclusive_or_read_as_a_number() -> None:
    key = InboxKey(bytes([0b1010]).rjust(32, b"\x00"))
    assert distance(NodeId(bytes([0b0110]).rjust(32, b"\x00")), key) == 0b1100
    assert distance(NodeId(bytes([1]).ljust(32, b"\x00")), InboxKey(bytes(32))) == 2**248


def test_zero_latency_counts_as_one_millisecond_and_zero_bandwidth_earns_nothing() -> None:
    measured_as_zero = node(1, latency_ms=0, bandwidth_bps=0)
    one_millisecond = node(2, latency_ms=1, bandwidth_bps=0)
    compared = [measured_as_zero, one_millisecond]
    assert score(measured_as_zero, compared) == score(one_millisecond, compared) == pytest.approx(0.7)
    assert score(node(3, bandwidth_bps=1), compared) == pytest.approx(0.4 + 0.3 + 0.03)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("uptime", -0.01),
        ("uptime", 1.01),
        ("uptime", math.nan),
        ("bandwidth_bps", -1),
        ("bandwidth_bps", 10**15 + 1),
        ("latency_ms", -0.1),
        ("latency_ms", math.inf),
        ("latency_ms", math.nan),
    ],
)
def test_impossible_measurements_are_refused(key: str, value: float) -> None:
    make: Any = node  # the key is a variable here, which no type can follow
    with pytest.raises(OutOfRange, match=rf"^candidate\.{key} = .* is outside 0\.\."):
        make(1, **{key: value})


@pytest.mark.parametrize("count", [0, 6])
def test_one_to_five_nodes_can_be_asked_for(count: int) -> None:
    five = [node(number) for number in range(1, 8)]
    assert len(choose_storage_nodes(five, KEY, count=5)) == 5
    with pytest.raises(OutOfRange, match=r"is outside 1\.\.5"):
        choose_storage_nodes(five, KEY, count=count)


def test_ids_of_another_size_and_a_node_named_twice_are_refused() -> None:
    with pytest.raises(Malformed, match="node id must have 32 bytes"):
        Candidate(node_id=NodeId(bytes(31)), uptime=1, bandwidth_bps=1, latency_ms=1)
    with pytest.raises(Malformed, match="inbox key must have 32 bytes"):
        choose_storage_nodes([node(1)], InboxKey(bytes(33)))
    with pytest.raises(LocalProtocolError, match="twice"):
        choose_storage_nodes([node(1), node(1, uptime=0.5)], KEY)


@clause("7.3")
@given(candidates=candidates)
def test_every_score_is_between_nothing_and_one(candidates: list[Candidate]) -> None:
    assert all(0 <= score(candidate, candidates) <= 1 for candidate in candidates)


@clause("7.3")
@given(candidates=candidates, key=st.binary(min_size=32, max_size=32).map(InboxKey))
def test_the_choice_does_not_depend_on_the_order_of_candidates(candidates: list[Candidate], key: InboxKey) -> None:
    chosen = choose_storage_nodes(candidates, key)
    assert choose_storage_nodes(reversed(candidates), key) == chosen
    assert len(chosen) == min(3, len(candidates))
    closer_than = sorted(distance(candidate.node_id, key) for candidate in candidates)[:5]
    assert all(distance(candidate.node_id, key) in closer_than for candidate in chosen)
