"""Draws the machines as they behave, not as somebody remembers them; run as a script, it writes the pages."""

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path

from restante.core.inbox import Phase
from restante.core.inbox import step as inbox_step
from restante.core.inbox_events import Effect
from restante.core.link.messages import Effect as LinkEffect
from restante.core.link.messages import WakeAt
from restante.core.link.table import Input
from restante.core.link.table import Phase as LinkPhase
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
    RetransmitRequested,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.journal import STATE_AFTER
from restante.model.states import ENDED, State
from restante.policy.failures import Failure
from support.inbox import session_states
from support.link import phases as link_phases
from support.outbox.entry_states import DAY_MS, MINUTE_MS, NOW_MS, OWNER, SETTINGS, reached

PAGES = Path(__file__).parents[3] / "docs" / "state-machines"
OUTBOX_PAGE = PAGES / "outbox.md"
INBOX_PAGE = PAGES / "inbox.md"
LINK_PAGE = PAGES / "link.md"
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
    RetransmitRequested(),
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


def inbox_moves() -> dict[tuple[Phase, Phase], set[str]]:
    """Every change of phase that some event brings about, with those events as the tests call them."""
    moves: dict[tuple[Phase, Phase], set[str]] = {}
    for phase, name, after, _ in _inbox_taken():
        if after is not phase:
            moves.setdefault((phase, after), set()).add(name)
    return moves


def _inbox_taken() -> Iterator[tuple[Phase, str, Phase, tuple[str, ...]]]:
    for phase in Phase:
        for name, (event, at_ms) in session_states.EVENTS.items():
            before = session_states.reached(phase)
            session, effects = inbox_step(before, event, now_ms=at_ms, limits=session_states.LIMITS)
            yield phase, name, session.phase, tuple(_named(effect) for effect in effects)


def _named(effect: Effect) -> str:
    """Such as `RecordGap(1, 1)`."""
    values = [getattr(effect, part.name) for part in fields(effect)]
    return f"{type(effect).__name__}({', '.join(_value(value) for value in values)})"


def _value(value: object) -> str:
    return value.name if isinstance(value, Enum) else str(value)


def inbox_page() -> str:
    moves = inbox_moves()
    order = list(Phase)
    rows = sorted(moves, key=lambda move: (order.index(move[0]), order.index(move[1])))
    arrows = [f"    {before} --> {after}: {' / '.join(sorted(moves[before, after]))}" for before, after in rows]
    pairs = [f"| {phase} | {name} | {after} | {_shown(effects)} |" for phase, name, after, effects in _inbox_taken()]
    return "\n".join(
        [
            "# The inbox machine",
            "",
            "One for each sender and session. Drawn from the machine itself: every phase met every event, and this is",
            "what followed. A test keeps it true. Rules: `src/restante/core/inbox.py`. Why a reset works as it does:",
            "[decision 0016](../decisions/0016-resets-show-nothing-twice.md).",
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {Phase.FLOWING}: first arrival",
            *arrows,
            "```",
            "",
            "Each pair, where 0 was handed on, 1 is missing and, unless the session flows, 2 came after it; what is",
            "`too far ahead` is 5,000:",
            "",
            "| phase | event | phase after | effects, in order |",
            "|---|---|---|---|",
            *pairs,
            "",
        ]
    )


def _shown(effects: tuple[str, ...]) -> str:
    return ", ".join(f"`{effect}`" for effect in effects) or "none"


def _link_taken(end: str) -> Iterator[tuple[LinkPhase, Input, LinkPhase, tuple[str, ...]]]:
    for phase in LinkPhase:
        for given in Input:
            if given not in link_phases.TABLES[end][phase]:
                continue
            for act in link_phases.acts(end, given):
                link = link_phases.reached(end, phase)
                effects = act(link)
                yield phase, given, link.phase, _kinds(effects)


def _kinds(effects: list[LinkEffect]) -> tuple[str, ...]:
    """The effects by name, timers aside."""
    return tuple(type(effect).__name__ for effect in effects if not isinstance(effect, WakeAt))


def link_page() -> str:
    lines = [
        "# The link machine",
        "",
        "One for each end of a connection. Drawn from the machine: every phase met every input that its table",
        "(`src/restante/core/link/table.py`) allows. A test keeps this page current. An input that is not listed is",
        "an error and changes nothing: the node refuses such a frame, the client ends the connection.",
    ]
    for end in link_phases.TABLES:
        taken = list(_link_taken(end))
        moves: dict[tuple[LinkPhase, LinkPhase], set[Input]] = {}
        for before, given, after, _ in taken:
            if before is not after:
                moves.setdefault((before, after), set()).add(given)
        rows: dict[tuple[LinkPhase, Input, LinkPhase], set[tuple[str, ...]]] = {}
        for before, given, after, effects in taken:
            rows.setdefault((before, given, after), set()).add(effects)
        lines += [
            "",
            f"## The {end}'s end",
            "",
            "```mermaid",
            "stateDiagram-v2",
            f"    [*] --> {LinkPhase.CONNECTING}",
            *(f"    {before} --> {after}: {', '.join(sorted(moves[before, after]))}" for before, after in moves),
            f"    {LinkPhase.CLOSED} --> [*]",
            "```",
            "",
            "| phase | input | phase after | effects, timers aside |",
            "|---|---|---|---|",
            *(
                f"| {before} | {given} | {after} | {' or '.join(sorted(map(_shown, effects)))} |"
                for (before, given, after), effects in rows.items()
            ),
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGES.mkdir(parents=True, exist_ok=True)
    OUTBOX_PAGE.write_text(outbox_page(), encoding="utf-8")
    INBOX_PAGE.write_text(inbox_page(), encoding="utf-8")
    LINK_PAGE.write_text(link_page(), encoding="utf-8")
