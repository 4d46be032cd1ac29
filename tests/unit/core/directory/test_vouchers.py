"""core/directory/vouchers: one server neither adds nor hides a node (SPEC 7.1)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from restante.core.directory.vouchers import VOUCHERS, Named, vouched
from restante.model.node_descriptor import NodeDescriptor
from support.mesh.nodes import NOW_MS, node
from support.spec.clauses import clause

HONEST = tuple(node(number) for number in range(20))
some_nodes = st.lists(st.integers(0, 40).map(node), max_size=40).map(tuple)


@clause("7.1")
@given(some_nodes, st.permutations([0, 1, 2]))
def test_one_of_three_servers_adds_and_hides_no_node(served: tuple[NodeDescriptor, ...], order: list[int]) -> None:
    answers = [Named(b"1", HONEST), Named(b"2", HONEST), Named(b"liar", served)]
    counted = vouched([answers[at] for at in order], needed=VOUCHERS)
    assert {each.node_id for each in counted} == {each.node_id for each in HONEST}


@clause("7.1")
@given(some_nodes, some_nodes)
def test_where_too_few_families_answer_all_that_is_named_counts(
    first: tuple[NodeDescriptor, ...], second: tuple[NodeDescriptor, ...]
) -> None:
    counted = vouched([Named(b"1", first), Named(b"2", second)], needed=1)
    assert {each.node_id for each in counted} == {each.node_id for each in first + second}


@clause("7.1")
def test_servers_of_one_family_have_one_voice_and_the_newest_issue_counts() -> None:
    newer = node(1, issued_at_ms=NOW_MS + 1)
    assert vouched([Named(b"1", (node(1),)), Named(b"1", (newer,))], needed=VOUCHERS) == []
    assert vouched([Named(b"1", (node(1),)), Named(b"2", (newer,))], needed=VOUCHERS) == [newer]


@clause("7.10", "11.6")
def test_an_exit_has_one_voice_whatever_it_answers_for_nodes_and_as_a_node() -> None:
    liar, other = frozenset({b"exit"}), frozenset({b"other"})
    named = (node(1),)
    for_two_nodes = [Named(b"1", named, liar), Named(b"2", named, liar)]
    assert vouched(for_two_nodes, needed=VOUCHERS) == []
    as_a_node = [Named(b"1", named, liar), Named(b"exit", named, other)]
    assert vouched(as_a_node, needed=VOUCHERS) == []
    one_node_over_two = [Named(b"1", named, liar), Named(b"1", named, other)]
    assert vouched(one_node_over_two, needed=VOUCHERS) == []
    two_nodes_over_two = [Named(b"1", named, liar), Named(b"2", named, other)]
    assert vouched(two_nodes_over_two, needed=VOUCHERS) == [node(1)]


@clause("7.1")
def test_a_node_counts_where_two_servers_name_it() -> None:
    moved = replace(node(1, issued_at_ms=NOW_MS + 1), endpoints=node(2).endpoints)
    answers = [Named(b"1", (node(1),)), Named(b"2", (node(1),)), Named(b"3", (moved,))]
    assert vouched(answers, needed=VOUCHERS) == [node(1)]
