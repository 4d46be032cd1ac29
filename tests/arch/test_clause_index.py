"""The clause index names every numbered clause of SPEC, and no other."""

from pathlib import Path

from support.spec.conformance_plugin import read_index

INDEX = Path(__file__).parents[2] / "docs" / "reference" / "clauses.toml"

LAST_CLAUSE = {1: 8, 2: 10, 3: 14, 4: 4, 5: 4, 6: 10, 7: 12, 8: 12, 9: 8, 10: 5, 11: 7, 12: 8, 13: 9}


def test_the_index_holds_every_clause_of_the_specification() -> None:
    numbered = [f"{section}.{n}" for section, last in LAST_CLAUSE.items() for n in range(1, last + 1)]
    assert list(read_index(INDEX).clauses) == ["0", *numbered]


def test_what_is_missing_or_planned_belongs_to_a_known_clause() -> None:
    index = read_index(INDEX)
    assert set(index.missing) | set(index.planned) <= set(index.clauses)


def test_titles_are_short_and_each_is_used_once() -> None:
    titles = list(read_index(INDEX).clauses.values())
    assert [title for title in titles if not 0 < len(title) <= 80] == []
    assert len(set(titles)) == len(titles)


def test_every_section_has_a_name() -> None:
    assert set(read_index(INDEX).sections) == {str(n) for n in range(14)}
