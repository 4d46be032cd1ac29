"""policy/scoring: how reliable a node is beside others."""

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed, OutOfRange
from restante.model.ids import NodeId
from restante.policy.scoring import Candidate, score
from support.spec.clauses import clause


def node(number: int, *, uptime: float = 1.0, bandwidth_bps: int = 1_000, latency_ms: float = 10) -> Candidate:
    """Return a node with these measurements."""
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


def test_an_id_of_another_size_is_refused() -> None:
    with pytest.raises(Malformed, match="node id must have 32 bytes"):
        Candidate(node_id=NodeId(bytes(31)), uptime=1, bandwidth_bps=1, latency_ms=1)


@clause("7.3")
@given(candidates=candidates)
def test_every_score_is_between_nothing_and_one(candidates: list[Candidate]) -> None:
    assert all(0 <= score(candidate, candidates) <= 1 for candidate in candidates)
