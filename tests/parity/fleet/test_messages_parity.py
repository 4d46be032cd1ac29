"""The message table says of every trace what a plain fold over its facts says."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from restante.model.ids import MessageId, event_number
from restante.model.journal import STATE_AFTER, JournalEvent, JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.states import State
from support.fleet.journal_files import Journal, message, writer
from support.fleet.message_table import message_table

T = TypeVar("T")
START_MS = 1_767_225_600_000
OVER = {State.DELIVERED, State.EXPIRED, State.EVICTED, State.DEAD}


@dataclass(slots=True)
class Life:
    """A message as a fold over its facts sees it."""

    kind: str | None = None
    priority: int | None = None
    accepted_at_ms: int | None = None
    state: State | None = None
    state_at_ms: int | None = None
    attempts: int = 0
    inconsistency: str | None = None


def fold(facts: list[JournalEvent]) -> dict[str, Any]:
    """One message's facts, in any order, as its row in the message table."""
    life = Life()
    for fact in sorted(facts, key=lambda row: row.event_id):
        live(life, fact)
    released = [fact.at_ms for fact in facts if fact.kind is JournalKind.RELEASED]
    senders = {fact.writer for fact in facts if fact.kind in STATE_AFTER}
    last = max(facts, key=lambda row: (row.at_ms, row.event_id))
    inconsistency = (
        ("missing_message_id" if facts[0].message_id is None else None)
        or ("never_accepted" if life.accepted_at_ms is None else None)
        or ("multiple_senders" if len(senders) > 1 else None)
        or life.inconsistency
    )
    in_order = sorted(facts, key=lambda row: row.event_id)
    of_sender = [fact for fact in in_order if fact.kind in STATE_AFTER]
    sealed_anew = [fact for fact in in_order if fact.kind is JournalKind.REENCRYPTED]
    as_sealed = [*reversed(sealed_anew), *of_sender]
    arrived = [fact for fact in facts if fact.kind is JournalKind.ARRIVED]
    sent_at_ms = first(fact.at_ms for fact in in_order if fact.kind is JournalKind.SENT)
    first_event_at_ms = min(fact.at_ms for fact in facts)
    tried_at_ms = [fact.at_ms for fact in in_order if fact.kind is JournalKind.ATTEMPTED]
    return {
        "message_id": facts[0].message_id,
        "sender": min(senders, default=None),
        "recipient": min((fact.writer for fact in facts if fact.kind is JournalKind.RELEASED), default=None),
        "message_kind": life.kind,
        "priority": life.priority,
        "payload_hash": first(fact.payload_hash for fact in as_sealed),
        "size_bytes": first(fact.size_bytes for fact in as_sealed),
        "ttl_s": first(fact.ttl_s for fact in as_sealed),
        "accepted_at_ms": life.accepted_at_ms,
        "state": life.state,
        "last_code": of_sender[-1].code if of_sender else None,
        "ended_at_ms": life.state_at_ms if life.state in OVER else None,
        "attempts": life.attempts,
        "last_attempt_at_ms": tried_at_ms[-1] if tried_at_ms else None,
        "sent_at_ms": sent_at_ms,
        "send_latency_ms": between(life.accepted_at_ms, sent_at_ms),
        "delivery_latency_ms": between(life.accepted_at_ms, life.state_at_ms if life.state == "delivered" else None),
        "released_at_ms": min(released, default=None),
        "release_latency_ms": between(life.accepted_at_ms, min(released, default=None)),
        "read_at_ms": first(fact.at_ms for fact in in_order if fact.kind is JournalKind.READ),
        "arrivals": len(arrived),
        "duplicates": sum(fact.code == "duplicate" for fact in arrived),
        "releases": len(released),
        "first_event_at_ms": first_event_at_ms,
        "last_event": last.kind,
        "last_event_at_ms": last.at_ms,
        "inconsistency": inconsistency,
        "last_change_number": event_number(of_sender[-1].event_id) if of_sender else None,
        "day": date(1970, 1, 1) + timedelta(milliseconds=first_known(life.accepted_at_ms, first_event_at_ms)),
    }


def first_known(one: int | None, other: int) -> int:
    return other if one is None else one


LISTS = ("other_hashes", "confirmed")  # other tests look at what is made of these


def first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def live(life: Life, fact: JournalEvent) -> None:
    if fact.kind not in STATE_AFTER:
        return
    life.kind = life.kind or fact.message_kind
    life.priority = fact.priority if life.priority is None else life.priority
    life.attempts += fact.kind is JournalKind.ATTEMPTED
    life.inconsistency = life.inconsistency or objection(life.state, fact.kind)
    if fact.kind is JournalKind.ACCEPTED and life.accepted_at_ms is None:
        life.accepted_at_ms = fact.at_ms
    life.state, life.state_at_ms = STATE_AFTER[fact.kind], fact.at_ms


def objection(state: State | None, kind: JournalKind) -> str | None:
    match state, kind:
        case None, _:
            return None
        case _, JournalKind.ACCEPTED:
            return "accepted_again"
        case _, JournalKind.RECOVERED:
            return None if state is State.DEAD else "recovered_in_flight"
    return "changed_after_end" if state in OVER else None


def between(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else end_ms - start_ms


KINDS = st.sampled_from([*STATE_AFTER, JournalKind.RELEASED, JournalKind.READ]) | st.sampled_from(JournalKind)
FACTS = st.tuples(
    st.integers(0, 9).map(lambda n: 0 if n < 7 else n - 7),  # mostly one writer, as in life
    st.sampled_from([0, 0, 0, 0, 1, 1, None]),
    KINDS,
    st.integers(0, 5_000),
    st.none() | st.sampled_from(Kind),
    st.none() | st.sampled_from(Priority),
    st.sampled_from([None, None, 0, 7]),
    st.sampled_from([None, "duplicate", "new", "E001"]),
)

Fact = tuple[int, int | None, JournalKind, int, Kind | None, Priority | None, int | None, str | None]


def told(*kinds: JournalKind) -> list[Fact]:
    """Facts of one writer about one message."""
    return [(0, 0, kind, 10, None, None, None, None) for kind in kinds]


def test_the_table_equals_a_fold_over_the_facts_of_any_trace(spark: SparkSession) -> None:
    rows: list[JournalEvent] = []
    traces = 0

    @settings(max_examples=300, database=None)
    @example(True, told(JournalKind.DELIVERED, JournalKind.ATTEMPTED))
    @example(True, told(JournalKind.EVICTED, JournalKind.RECOVERED))
    @example(True, told(JournalKind.DEAD_LETTERED, JournalKind.RECOVERED, JournalKind.DELIVERED, JournalKind.READ))
    @given(st.booleans(), st.lists(FACTS, min_size=1, max_size=14))
    def collect(starts_well: bool, facts: list[Fact]) -> None:
        nonlocal traces
        traces += 1
        journals = [Journal(writer(traces * 3 + place)) for place in range(3)]
        if starts_well:
            journals[0].write(JournalKind.ACCEPTED, message(traces * 2), START_MS)
        for place, which, kind, delay_ms, message_kind, priority, number, code in facts:
            subject = None if which is None else message(traces * 2 + which)
            journals[place].write(
                kind,
                subject,
                START_MS + delay_ms,
                message_kind=message_kind,
                priority=priority,
                payload_hash=None if number is None else bytes([number]) * 32,
                size_bytes=number,
                ttl_s=number,
                code=code,
            )
        for journal in journals:
            rows.extend(journal.rows)

    collect()
    expected: dict[MessageId | None, list[JournalEvent]] = defaultdict(list)
    for row in rows:
        if row.message_id is not None or row.kind in STATE_AFTER:
            expected[row.message_id].append(row)
    found = message_table(spark, rows)
    folded = {message_id: fold(facts) for message_id, facts in expected.items()}
    shown = {key: {name: row[name] for name in row if name not in LISTS} for key, row in found.items()}
    assert shown == folded
    assert {row["inconsistency"] for row in folded.values()} == {
        None,
        "missing_message_id",
        "never_accepted",
        "accepted_again",
        "changed_after_end",
        "recovered_in_flight",
        "multiple_senders",
    }
