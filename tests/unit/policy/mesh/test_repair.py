"""policy/mesh/repair: what is copied first, how fast, and whom to ask."""

from hypothesis import given
from hypothesis import strategies as st

from restante.model.ids import InboxKey, NodeId, PayloadHash
from restante.policy.mesh.repair import MissingCopy, best_first, earliest_next_ms, needs_repair, repair_order
from support.spec.clauses import clause

NODES = [NodeId(bytes([number]) * 32) for number in range(4)]


@clause("7.9")
@given(
    st.lists(
        st.builds(
            MissingCopy, st.binary(max_size=2).map(InboxKey), st.binary(max_size=2).map(PayloadHash), st.integers(0, 5)
        )
    )
)
def test_what_has_the_fewest_copies_is_fetched_first(missing: list[MissingCopy]) -> None:
    ordered = repair_order(missing)
    assert sorted(ordered) == sorted(missing)
    assert [each.copies for each in ordered] == sorted(each.copies for each in missing)
    for copies in range(6):
        assert [each for each in ordered if each.copies == copies] == [
            each for each in missing if each.copies == copies
        ]


@clause("7.9")
def test_two_missed_pings_start_repair() -> None:
    assert [needs_repair(missed) for missed in range(4)] == [False, False, True, True]


@clause("7.9")
def test_repair_transfers_at_most_4_mb_a_second() -> None:
    assert earliest_next_ms(now_ms=0, transferred_bytes=4_000_000) == 1_000
    assert earliest_next_ms(now_ms=5, transferred_bytes=1) == 6
    assert earliest_next_ms(now_ms=5, transferred_bytes=0) == 5


@clause("7.3")
def test_the_best_scored_node_is_asked_first_and_none_is_left_out() -> None:
    assert best_first(NODES, {NODES[1]: 0.4, NODES[2]: 0.9}) == [NODES[2], NODES[1], NODES[0], NODES[3]]
    assert best_first(NODES[::-1], {}) == NODES[::-1]
