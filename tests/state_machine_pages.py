"""Draws the machines as they behave, not as somebody remembers them; run as a script, it writes the pages."""

from collections.abc import Iterator
from pathlib import Path

from outbox_cases import DAY_MS, MINUTE_MS, NOW_MS, OWNER, SETTINGS, reached
from restante.core.outbox import step
from restante.core.outbox_events import (
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.journal import STATE_AFTER
from restante.model.states import ENDED, State
from restante.policy.failures import Failure

OUTBOX_PAGE = Path(__file__).parents[1] / "docs" / "state-machines" / "outbox.md"
TIMES_MS = (NOW_MS, NOW_MS + 2 * MINUTE_MS, NOW_MS + DAY_MS, NOW_MS + 29 * DAY_MS, NOW_MS + 30 * DAY_MS)
EVENTS: tuple[Event, ...] = (
    Leased(owner=OWNER, until_ms=NOW_MS + 40 * DAY_MS),
    TransmitSucceeded(),
    *(TransmitFailed(owner=OWNER, failure=failure) for failure in Failure),
    DeliveryAcked(),
    ReceiptAcked(),
    ReadAcked(),
    TimePassed(),
    CapacityExceeded(),
    Cancelled(),
    Recovered(),
)


def outbox_moves() -> dict[tuple[State, State], set[str]]:
    """Every change of state that some event at some time brings about, with the events that do."""
    moves: dict[tuple[State, State], set[str]] = {}
    for before, after, event in _taken():
        if after is not before:
            moves.setdefault((before, after), set()).add(type(event).__name__)
    return moves


def _taken() -> Iterator[tuple[State, State, Event]]:
    for state in State:
        for event in EVENTS:
            for now_ms in TIMES_MS:
                try:
                    entry, _ = step(reached(state), event, now_ms=now_ms, settings=SETTINGS)
                except LocalProtocolError:
                    continue
                yield state, entry.state, event


def outbox_page() -> str:
    moves = outbox_moves()
    order = list(State)
    rows = sorted(moves, key=lambda move: (order.index(move[0]), order.index(move[1])))
    arrows = [f"    {before} --> {after}: {', '.join(sorted(moves[before, after]))}" for before, after in rows]
    ends = [f"    {state} --> [*]" for state in State if state in ENDED]
    facts = [f"| {kind} | {state} |" for kind, state in STATE_AFTER.items()]
    return "\n".join(
        [
            "# The outbox machine",
            "",
            "Drawn from the machine itself: every state met every event, and this is what moved. A test keeps it true.",
            "Rules: `src/restante/core/outbox.py`. What each pair does: `tests/unit/core/test_outbox_table.py`.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {State.PENDING}: accepted",
            *arrows,
            *ends,
            "```",
            "",
            "Each change writes the fact that states it, in the same transaction (SPEC 1.4):",
            "",
            "| fact | state after it |",
            "|---|---|",
            *facts,
            "",
        ]
    )


if __name__ == "__main__":
    OUTBOX_PAGE.parent.mkdir(parents=True, exist_ok=True)
    OUTBOX_PAGE.write_text(outbox_page(), encoding="utf-8")
