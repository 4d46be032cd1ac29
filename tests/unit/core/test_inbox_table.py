"""core/inbox: every phase meets every event, each pair written out by hand: the phase after it, and its effects."""

from typing import Final, get_args

import pytest

from restante.core.inbox import Phase
from restante.core.inbox_events import (
    Discard,
    Effect,
    Event,
    Hold,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
)
from restante.model.states import Verdict
from support.inbox.session_states import EVENTS, reached, taken
from support.spec.clauses import clause

F, W = Phase.FLOWING, Phase.WAITING
NEW, DUPLICATE, COLLISION, REPLAY = (RecordVerdict(verdict) for verdict in Verdict)
GAP_OF_1: Final = RecordGap(1, 1)
ASK_FOR_1: Final = RequestRetransmit(1, 11)

TABLE: Final[dict[tuple[Phase, str], tuple[Phase, tuple[Effect, ...]]]] = {
    # Flowing: 0 was released, 1 is next, nothing waits.
    (F, "next"): (F, (NEW, Release(1))),
    (F, "next, known elsewhere"): (F, (DUPLICATE,)),
    (F, "next, other content elsewhere"): (F, (COLLISION,)),
    (F, "ahead"): (W, (NEW, Hold(3))),
    (F, "ahead, known elsewhere"): (W, (DUPLICATE, Hold(3, is_placeholder=True))),
    (F, "number used before"): (F, (REPLAY,)),
    (F, "next, control"): (F, (NEW,)),
    (F, "ahead, control"): (W, (NEW, Hold(3, is_placeholder=True))),
    (F, "too far ahead"): (F, (Refuse(),)),
    (F, "too far ahead, much later"): (F, (Refuse(),)),
    (F, "a moment passed"): (F, ()),
    (F, "five minutes passed"): (F, ()),
    # Waiting: 2 waits for 1. What comes in place of 1 lets 2 through, whatever it was.
    (W, "next"): (F, (NEW, Release(1), Release(2))),
    (W, "next, known elsewhere"): (F, (DUPLICATE, Release(2))),
    (W, "next, other content elsewhere"): (F, (COLLISION, Release(2))),
    (W, "ahead"): (W, (NEW, Hold(3))),
    (W, "ahead, known elsewhere"): (W, (DUPLICATE, Hold(3, is_placeholder=True))),
    (W, "number used before"): (W, (REPLAY,)),
    (W, "next, control"): (F, (NEW, Release(2))),
    (W, "ahead, control"): (W, (NEW, Hold(3, is_placeholder=True))),
    (W, "too far ahead"): (W, (Refuse(),)),
    # SPEC 9.5 comes first: the gap was old enough before this arrived.
    (W, "too far ahead, much later"): (F, (GAP_OF_1, ASK_FOR_1, Release(2), Refuse())),
    (W, "a moment passed"): (W, ()),
    (W, "five minutes passed"): (F, (GAP_OF_1, ASK_FOR_1, Release(2))),
}


def test_the_table_has_every_phase_with_every_event() -> None:
    assert set(TABLE) == {(phase, name) for phase in Phase for name in EVENTS}
    assert {type(event) for event, _ in EVENTS.values()} == set(get_args(Event))


def test_every_effect_is_in_the_table_but_the_discarding_of_placeholders() -> None:
    seen = {type(effect) for _, effects in TABLE.values() for effect in effects}
    assert seen == set(get_args(Effect)) - {Discard}


@clause("9.1", "9.4", "9.5")
@pytest.mark.parametrize(("phase", "name"), TABLE, ids=str)
def test_each_pair_does_what_the_table_says(phase: Phase, name: str) -> None:
    before = reached(phase)
    assert before.phase is phase
    event, at_ms = EVENTS[name]
    session, effects = taken(before, event, at_ms=at_ms)
    assert (session.phase, effects) == TABLE[phase, name]
