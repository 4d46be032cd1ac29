"""Every phase of a link, at both ends, meets every input: the table in `core.link.table` says what may follow."""

from itertools import product

import pytest

from restante.core.link.machine import Link
from restante.core.link.messages import Effect, Refuse, ReportFault, WakeAt
from restante.core.link.table import FRAMES, REMOTE, Input, Phase
from restante.model.errors import LocalProtocolError
from support.link.phases import TABLES, acts, reached
from support.spec.clauses import clause

PAIRS = list(product(TABLES, Phase, Input))
LEGAL = [(end, phase, given) for end, phase, given in PAIRS if given in TABLES[end][phase]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def state_of(link: Link) -> dict[str, object]:
    return {name: value for name, value in vars(link).items() if name not in {"requests", "heard_s", "_allowed"}}


@clause("6.8")
@pytest.mark.parametrize(("end", "phase", "given"), LEGAL)
def test_a_legal_input_leads_to_the_phases_of_the_table_and_to_no_other(end: str, phase: Phase, given: Input) -> None:
    seen = set()
    for act in acts(end, given):
        link = reached(end, phase)
        act(link)
        seen.add(link.phase)
    assert seen == TABLES[end][phase][given]


@pytest.mark.parametrize(("end", "phase", "given"), ILLEGAL)
def test_an_illegal_input_is_an_error_and_changes_nothing(end: str, phase: Phase, given: Input) -> None:
    for act in acts(end, given):
        link = reached(end, phase)
        before = state_of(link)
        if given in REMOTE:
            effects: list[Effect] = [effect for effect in act(link) if not isinstance(effect, WakeAt)]
            assert [type(effect) for effect in effects] == [Refuse if end == "node" else ReportFault]
        else:
            with pytest.raises(LocalProtocolError):
                act(link)
        assert {**state_of(link), "_wake_at_s": None} == {**before, "_wake_at_s": None}


def test_a_closed_link_stays_closed_and_orders_nothing() -> None:
    for end, given in product(TABLES, Input):
        if given not in TABLES[end][Phase.CLOSED]:
            continue
        for act in acts(end, given):
            link = reached(end, Phase.CLOSED)
            effects = act(link)
            assert link.phase is Phase.CLOSED
            assert [type(effect).__name__ for effect in effects if type(effect).__name__ != "OpenWindow"] == []


def test_every_frame_input_is_remote() -> None:
    assert set(FRAMES) < REMOTE
