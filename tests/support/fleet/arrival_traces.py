"""Traces of recipients' facts for the arrivals kernel, and what core/inbox says of each fact, told by a plain fold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from restante.core.inbox import InboxSession, step
from restante.core.inbox_events import (
    Arrived,
    Event,
    Hold,
    KnownInOtherSession,
    RecordGap,
    RecordVerdict,
    Refuse,
    Release,
    RequestRetransmit,
    TimePassed,
)
from restante.fleet.kernels.arrivals_schema import SESSION_EVENTS
from restante.model.ids import event_id
from restante.model.states import Verdict
from restante.policy.dedup import DedupLimits
from restante.policy.reorder_limits import OrderLimits
from support.fleet.journal_files import message, writer

START_MS = 1_800_000_000_000
DAY_MS = 86_400_000
LIMITS = OrderLimits()
DEDUP = DedupLimits()
WORDS = ("new", "duplicate", "collision", "replay", "E009")
NUMBER = {"new": 0, "duplicate": 1, "collision": 2, "replay": 3, "E009": 4, "other": 5}


class TraceFact(NamedTuple):
    """One event: `what` is arrived, control or passed."""

    session: int
    what: str
    after_ms: int
    sequence: int | None = None
    message: int = 0
    payload: int = 0
    recorded: str = "new"


class Told(NamedTuple):
    """What came of a fact."""

    verdict: str | None
    placement: str | None
    expected: int
    released: int
    gaps: tuple[tuple[int, int, bool], ...]


@dataclass
class Recipient:
    """Sessions as the core has them; what was seen, in a plain list."""

    sessions: dict[int, InboxSession] = field(default_factory=dict)
    seen: list[list[Any]] = field(default_factory=list)

    def take(self, fact: TraceFact, now_ms: int) -> Told:
        if fact.what != "passed":
            return self._arrive(fact, now_ms)
        return self._step(fact, TimePassed(), now_ms)

    def _arrive(self, fact: TraceFact, now_ms: int) -> Told:
        fresh = [
            entry
            for entry in self.seen
            if entry[:2] == [fact.session, fact.message] and now_ms < entry[3] + DEDUP.window_ms
        ]
        same = [entry for entry in fresh if entry[2] == fact.payload]
        if same:
            same[0][3] = now_ms
            return self._plain(fact, "duplicate")
        if fresh:
            return self._plain(fact, "collision")
        if fact.sequence is None:
            return self._plain(fact, fact.recorded if fact.recorded in {"duplicate", "collision", "E009"} else "replay")
        elsewhere = {"duplicate": KnownInOtherSession.SAME_CONTENT, "collision": KnownInOtherSession.OTHER_CONTENT}
        told = self._step(
            fact,
            Arrived(fact.sequence, elsewhere.get(fact.recorded, KnownInOtherSession.UNKNOWN), fact.what == "control"),
            now_ms,
        )
        if told.verdict in {"new", "duplicate"}:
            self.seen.append([fact.session, fact.message, fact.payload, now_ms])
        is_placeholder = told.verdict in {"duplicate", "collision"} or (
            told.verdict == "new" and fact.what == "control"
        )
        return told._replace(placement="placeholder") if is_placeholder else told

    def _plain(self, fact: TraceFact, verdict: str) -> Told:
        session = self.sessions.setdefault(fact.session, InboxSession())
        return Told(verdict, None, session.expected, 0, ())

    def _step(self, fact: TraceFact, event: Event, now_ms: int) -> Told:
        before = self.sessions.get(fact.session, InboxSession())
        session, effects = step(before, event, now_ms=now_ms, limits=LIMITS)
        self.sessions[fact.session] = session
        verdict, placement = None, None
        gaps: list[tuple[int, int, bool]] = []
        for effect in effects:
            match effect:
                case RecordVerdict(judged):
                    verdict = str(judged)
                case Refuse():
                    verdict = "E009"
                case Hold():
                    placement = "held"
                case Release(sequence, is_late) if verdict == Verdict.NEW and sequence == fact.sequence:
                    placement = "late" if is_late else "released"
                case RecordGap(first, last):
                    gaps.append((first, last, False))
                case RequestRetransmit():
                    gaps[-1] = (*gaps[-1][:2], True)
                case _:
                    pass
        released = sum(isinstance(effect, Release) for effect in effects)
        return Told(verdict, placement, session.expected, released, tuple(gaps))


def moments(trace: Sequence[TraceFact]) -> list[int]:
    now_ms, found = START_MS, []
    for fact in trace:
        now_ms += fact.after_ms
        found.append(now_ms)
    return found


def by_the_core(trace: Sequence[TraceFact]) -> list[Told]:
    recipient = Recipient()
    return [recipient.take(fact, now_ms) for fact, now_ms in zip(trace, moments(trace), strict=True)]


def tag(session: int) -> bytes:
    return bytes([session]) * 3 + b"a tag of 13.."


def payload_hash(fact: TraceFact) -> bytes:
    return bytes([fact.payload]) * 16 + bytes(16)


def kernel_facts(trace: Sequence[TraceFact]) -> list[dict[str, Any]]:
    """The trace as rows of kernels.tables.SESSION_EVENTS, in order."""
    events = {"arrived": 0, "passed": 1, "control": 2}
    return [
        {
            "event_id": event_id(writer(1), number),
            "session_tag": tag(fact.session),
            "event": events[fact.what],
            "at_ms": at_ms,
            "sequence": -1 if fact.sequence is None else fact.sequence,
            "message_id": message(fact.message) if fact.what != "passed" else bytes(16),
            "payload": payload_hash(fact)[:16] if fact.what != "passed" else bytes(16),
            "recorded": NUMBER[fact.recorded] if fact.what != "passed" else NUMBER["other"],
        }
        for number, (fact, at_ms) in enumerate(zip(trace, moments(trace), strict=True), 1)
    ]


def facts_table(rows: Iterable[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(list(rows), schema=SESSION_EVENTS)


def told_by(judged: Any) -> dict[bytes, Told]:
    """Rows of kernels.arrivals_schema.CLASSIFIED by their event."""
    placements = {0: "released", 1: "late", 2: "held", 3: "placeholder"}
    return {
        row["event_id"]: Told(
            None if row["verdict"] < 0 else WORDS[row["verdict"]],
            placements.get(row["placement"]),
            row["expected"],
            row["released"],
            tuple((gap["first"], gap["last"], gap["retransmit_requested"]) for gap in row["gaps"] or ()),
        )
        for row in judged.to_pylist()
    }


def told_by_table(arrivals: Any) -> dict[bytes, Told]:
    """Rows of the table `arrivals` by their event."""
    return {
        row["event_id"]: Told(
            row["verdict"],
            row["placement"],
            row["next_expected"],
            row["released"],
            tuple((gap["first"], gap["last"], gap["retransmit_requested"]) for gap in row["gaps"] or ()),
        )
        for row in arrivals.to_pylist()
    }


_DELAYS = st.sampled_from([0, 0, 1, 1_000, 1_000, 60_000, 299_999, 300_000, -3_600_000, 29 * DAY_MS, 30 * DAY_MS])
_NUMBERS = st.none() | st.integers(0, 7) | st.sampled_from([999, 1_000, 1_001, 1_002, 2_100, 2**32 - 1])
_RECORDED = st.sampled_from([*["new"] * 8, *NUMBER])
_ARRIVALS = st.builds(
    TraceFact,
    st.integers(0, 2),
    st.sampled_from(["arrived", "arrived", "arrived", "control"]),
    _DELAYS,
    _NUMBERS,
    st.integers(0, 9),
    st.sampled_from([0, 0, 0, 1]),
    _RECORDED,
)
_OTHERS = st.tuples(st.integers(0, 2), st.just("passed"), _DELAYS).map(lambda values: TraceFact(*values))
WILD = st.lists(st.one_of(_ARRIVALS, _ARRIVALS, _ARRIVALS, _ARRIVALS, _OTHERS), max_size=40)
"""Anything that a recipient could write down, and much that none would."""


@st.composite
def tame(draw: st.DrawFn) -> list[TraceFact]:
    """Sessions as they mostly are: in order but for near neighbours, some of it twice, opened or not."""
    facts: list[tuple[float, TraceFact]] = []
    for session in range(draw(st.integers(1, 3))):
        for number in range(draw(st.integers(0, 12))):
            at = number + draw(st.sampled_from([0.0, 0.0, 0.0, 1.5, 2.5]))
            name = session * 100 + number
            what = draw(st.sampled_from(["arrived", "arrived", "arrived", "control"]))
            facts.append((at, TraceFact(session, what, 10, number, name)))
            for again in draw(st.lists(st.sampled_from([0.1, 4.0]), max_size=1)):
                sequence = draw(st.sampled_from([None, number]))
                payload = draw(st.sampled_from([0, 0, 0, 1]))
                facts.append((at + again, TraceFact(session, "arrived", 10, sequence, name, payload, "duplicate")))
    return [fact for _, fact in sorted(facts, key=lambda pair: pair[0])]


TRACES = st.one_of(tame(), WILD)
CUTS = st.lists(st.integers(0, 40), max_size=4).map(sorted)
