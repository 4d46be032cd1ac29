"""Runs of numbers say which facts came more than once, however the facts are cut into batches and mixed."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.fleet.kernels.number_ranges import Runs, joined, repeated, runs_in

pytestmark = pytest.mark.unit

LAST = 2**64 - 1
NUMBERS = st.one_of(st.integers(0, 12), st.integers(LAST - 3, LAST))
FACTS = st.lists(st.tuples(st.sampled_from([0, 7, LAST]), NUMBERS), max_size=40)


def runs_of(facts: list[tuple[int, int]]) -> Runs:
    ids = [writer.to_bytes(8, "big") + number.to_bytes(8, "big") for writer, number in facts]
    return runs_in(pa.array(ids, pa.binary()))


def numbers_in(runs: Runs) -> Counter[tuple[int, int]]:
    return Counter(
        (writer, number)
        for writer, first, last in zip(runs.writer.tolist(), runs.first.tolist(), runs.last.tolist(), strict=True)
        for number in range(first, last + 1)
    )


@given(st.lists(FACTS, max_size=4))
@example([[(7, LAST)], [(7, 0)]])
def test_runs_hold_every_number_as_often_as_it_came(batches: list[list[tuple[int, int]]]) -> None:
    together = joined(runs_of(batch) for batch in batches)
    assert numbers_in(together) == Counter(fact for batch in batches for fact in batch)


@given(st.lists(FACTS, max_size=4))
@example([[(7, 1), (7, 2), (7, 3)], [(7, 2)], [(7, 2), (7, 3)]])
def test_what_came_more_than_once_is_found_once(batches: list[list[tuple[int, int]]]) -> None:
    came = Counter(fact for batch in batches for fact in batch)
    found = repeated(joined(runs_of(batch) for batch in batches))
    assert numbers_in(found) == {fact: 1 for fact, times in came.items() if times > 1}


def test_facts_in_order_are_one_run() -> None:
    facts = [(7, number) for number in range(1, 1_001)]
    assert len(joined([runs_of(facts[500:]), runs_of(facts[:500][::-1])])) == 1
