"""core/inbox: every phase meets every event, each pair written out by hand: the phase after it, and its effects."""

from typing import Final, get_args

import pytest

from restante.core.inbox import Phase
from restante.core.inbox_events import (
    AskReset,
    Discard,
    Effect,
    Event,
    Hold,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
    ResetReason,
)
from restante.model.states import Verdict
from support.inbox.session_states import EVENTS, reached, taken
from support.spec.clauses import clause

F, W, B, C = Phase.FLOWING, Phase.WAITING, Phase.BROKEN, Phase.CLOSED
NEW, DUPLICATE, COLLISION, REPLAY = (RecordVerdict(verdict) for verdict in Verdict)
GAP_OF_1: Final = RecordGap(1, 1)
ASK_FOR_1: Final = RequestRetransmit(1, 11)
TOO_WIDE: Final = AskReset(ResetReason.GAP_TOO_WIDE)
UNREADABLE: Final = AskReset(ResetReason.UNREADABLE)

TABLE: Final[dict[tuple[Phase, str], tuple[Phase, tuple[Effect, ...]]]] = {
    # Flowing: 0 was handed on, 1 is next, nothing waits.
    (F, "next"): (F, (NEW, Release(1))),
    (F, "next, known elsewhere"): (F, (DUPLICATE,)),
    (F, "next, other content elsewhere"): (F, (COLLISION,)),
    (F, "ahead"): (W, (NEW, Hold(3))),
    (F, "ahead, known elsewhere"): (W, (DUPLICATE, Hold(3, is_void=True))),
    (F, "number used before"): (F, (REPLAY,)),
    (F, "too far ahead"): (B, (Refuse(), TOO_WIDE)),
    (F, "too far ahead, much later"): (B, (Refuse(), TOO_WIDE)),
    (F, "a moment passed"): (F, ()),
    (F, "five minutes passed"): (F, ()),
    (F, "failed"): (B, (UNREADABLE,)),
    (F, "failed, much later"): (B, (UNREADABLE,)),
    (F, "reset agreed"): (C, ()),
    # Waiting: 2 waits for 1. What comes in place of 1 lets 2 through, whatever it was.
    (W, "next"): (F, (NEW, Release(1), Release(2))),
    (W, "next, known elsewhere"): (F, (DUPLICATE, Release(2))),
    (W, "next, other content elsewhere"): (F, (COLLISION, Release(2))),
    (W, "ahead"): (W, (NEW, Hold(3))),
    (W, "ahead, known elsewhere"): (W, (DUPLICATE, Hold(3, is_void=True))),
    (W, "number used before"): (W, (REPLAY,)),
    # 2 has its receipt, so it is handed on before the session ends (docs/decisions/0016).
    (W, "too far ahead"): (B, (Refuse(), GAP_OF_1, Release(2), TOO_WIDE)),
    # SPEC 9.5 comes first: the gap was old enough before this arrived.
    (W, "too far ahead, much later"): (B, (GAP_OF_1, ASK_FOR_1, Release(2), Refuse(), TOO_WIDE)),
    (W, "a moment passed"): (W, ()),
    (W, "five minutes passed"): (F, (GAP_OF_1, ASK_FOR_1, Release(2))),
    (W, "failed"): (B, (GAP_OF_1, Release(2), UNREADABLE)),
    (W, "failed, much later"): (B, (GAP_OF_1, ASK_FOR_1, Release(2), UNREADABLE)),
    (W, "reset agreed"): (C, (GAP_OF_1, Release(2))),
    # Broken: nothing more is taken in; who goes on sending is reminded, at most every five minutes.
    (B, "next"): (B, (Refuse(),)),
    (B, "next, known elsewhere"): (B, (Refuse(),)),
    (B, "next, other content elsewhere"): (B, (Refuse(),)),
    (B, "ahead"): (B, (Refuse(),)),
    (B, "ahead, known elsewhere"): (B, (Refuse(),)),
    (B, "number used before"): (B, (REPLAY,)),
    (B, "too far ahead"): (B, (Refuse(),)),
    (B, "too far ahead, much later"): (B, (Refuse(), UNREADABLE)),
    (B, "a moment passed"): (B, ()),
    (B, "five minutes passed"): (B, ()),
    (B, "failed"): (B, ()),
    (B, "failed, much later"): (B, (UNREADABLE,)),
    (B, "reset agreed"): (C, ()),
    # Closed: the sender knows, so nobody is reminded.
    (C, "next"): (C, (Refuse(),)),
    (C, "next, known elsewhere"): (C, (Refuse(),)),
    (C, "next, other content elsewhere"): (C, (Refuse(),)),
    (C, "ahead"): (C, (Refuse(),)),
    (C, "ahead, known elsewhere"): (C, (Refuse(),)),
    (C, "number used before"): (C, (REPLAY,)),
    (C, "too far ahead"): (C, (Refuse(),)),
    (C, "too far ahead, much later"): (C, (Refuse(),)),
    (C, "a moment passed"): (C, ()),
    (C, "five minutes passed"): (C, ()),
    (C, "failed"): (C, ()),
    (C, "failed, much later"): (C, ()),
    (C, "reset agreed"): (C, ()),
}


def test_the_table_has_every_phase_with_every_event() -> None:
    assert set(TABLE) == {(phase, name) for phase in Phase for name in EVENTS}
    assert {type(event) for event, _ in EVENTS.values()} == set(get_args(Event))


def test_every_effect_is_in_the_table_but_the_discarding_of_what_another_session_brought() -> None:
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
