"""Try every phase with every event of a machine whose table is data."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from restante.core.transitions import Table
from restante.model.errors import LocalProtocolError


def assert_table_holds(
    table: Table[Any],
    reached: Mapping[Any, Iterable[Any]],
    events: Iterable[Any],
    step: Callable[[Any, Any], Any],
) -> None:
    """`reached` has at least one state of every phase; `step` returns the state after an event.

    Listed pairs lead to listed phases, each listed phase is reached by some pair, and other pairs raise.
    """
    assert set(reached) == set(table), "a state of every phase"
    examples = list(events)
    seen: dict[tuple[Any, type], set[Any]] = {}
    for phase, states in reached.items():
        for state in states:
            assert state.phase is phase
            for event in examples:
                if type(event) not in table[phase]:
                    with pytest.raises(LocalProtocolError):
                        step(state, event)
                    continue
                seen.setdefault((phase, type(event)), set()).add(step(state, event).phase)
    listed = {(phase, event_type): set(to) for phase, row in table.items() for event_type, to in row.items()}
    wrong = [f"{pair[1].__name__} while {pair[0]}: {sorted(to)}" for pair, to in seen.items() if listed[pair] != to]
    assert wrong == [], "\n".join(wrong)
    assert set(seen) == set(listed), "an example of every event"
