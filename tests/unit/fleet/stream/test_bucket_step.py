"""A bucket of the stream has the tables of everything at once, however its rows came: in parts, in any order, twice."""

import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.stream import bucket_files, bucket_step, compaction, dedup_runs, retired_sessions
from restante.fleet.stream.rows import COLUMNS
from restante.fleet.stream.state_tables import KINDS as KINDS_OF_FILES
from restante.fleet.transforms.validate import CONFLICT
from restante.model.ids import event_id
from support.fleet.arrival_traces import (
    DAY_MS,
    DEDUP,
    TRACES,
    Recipient,
    Told,
    TraceFact,
    moments,
    payload_hash,
)
from support.fleet.journal_files import message, writer
from support.fleet.stream_buckets import FedBucket, Record
from support.spec.clauses import clause

pytestmark = pytest.mark.unit

KINDS = {"arrived": "arrived", "control": "arrived", "passed": "gap_skipped"}
NOTHING: Record = dict.fromkeys(COLUMNS)
SIGNED = frozenset("be")
"""Files that an enrolled key signed."""


@dataclass
class Fleet:
    """What writers wrote, and the facts behind it."""

    rows: list[Record] = field(default_factory=list)
    facts: dict[bytes, tuple[int, TraceFact, int]] = field(default_factory=dict)

    def write(self, who: int, trace: Sequence[TraceFact]) -> None:
        for number, (fact, at_ms) in enumerate(zip(trace, moments(trace), strict=True), 1):
            row = fact_row(who, number, fact, at_ms)
            self.facts[row["event_id"]] = (who, fact, at_ms)
            self.rows.append(row)
        self.rows.append(other_row(who, len(trace) + 1))

    def told(self, events: set[bytes], *, changed: Collection[bytes] = ()) -> dict[bytes, Told]:
        """What the core says of the facts among `events`, each recipient's in order. A signed file has another code for
        those that are `changed`."""
        recipients: dict[int, Recipient] = {}
        found = {}
        for name in sorted(events & self.facts.keys()):
            who, fact, at_ms = self.facts[name]
            if name in changed:
                fact = fact._replace(recorded="changed")
            found[name] = recipients.setdefault(who, Recipient()).take(fact, at_ms)
        return found


def tag(who: int, session: int) -> bytes:
    return bytes([who]) * 8 + bytes([session]) * 8


def code_of(fact: TraceFact) -> str | None:
    return None if fact.recorded == "other" or fact.what == "passed" else fact.recorded


def fact_row(who: int, number: int, fact: TraceFact, at_ms: int) -> Record:
    is_arrival = fact.what != "passed"
    return NOTHING | {
        "event_id": event_id(writer(who), number),
        "at_ms": at_ms,
        "kind": KINDS[fact.what],
        "writer": writer(who),
        "message_id": message(fact.message) if is_arrival else None,
        "session_tag": tag(who, fact.session),
        "message_kind": "control" if fact.what == "control" else None,
        "sequence": fact.sequence if is_arrival else None,
        "payload_hash": payload_hash(fact) if is_arrival else None,
        "code": code_of(fact),
        "reason": None,
    }


def other_row(who: int, number: int, kind: str = "accepted", **changes: Any) -> Record:
    """A fact that tells of no incoming session."""
    plain = {"event_id": event_id(writer(who), number), "at_ms": 0, "kind": kind, "writer": writer(who)}
    return NOTHING | plain | {"reason": None} | changes


def at_once(rows: Sequence[Record]) -> tuple[set[tuple[Any, ...]], Counter[tuple[Any, ...]], int]:
    """Events, quarantine and number of repeats of all rows together, told by a plain loop (SPEC 13.1, 13.2).

    Where a signed file has an event, only rows of signed files can contradict it.
    """
    events, odd, repeats = set(), Counter[tuple[Any, ...]](), 0
    copies: dict[bytes, list[Record]] = {}
    for row in rows:
        if row["reason"] is None:
            copies.setdefault(row["event_id"], []).append(row)
        else:
            odd[(*content(row), row["source_file"], row["reason"])] += 1
    for same in copies.values():
        trusted = [row for row in same if row["source_file"] in SIGNED] or same
        is_split = len({content(row) for row in trusted}) > 1
        equal = [] if is_split else [row for row in same if content(row) == content(trusted[0])]
        odd.update((*content(row), row["source_file"], CONFLICT) for row in same if row not in equal)
        if is_split:
            continue
        events.add(content(trusted[0]))
        repeats += len(equal) - 1
        if trusted[0]["kind"] == "arrived" and trusted[0]["session_tag"] is None:
            odd[(*content(trusted[0]), min(row["source_file"] for row in trusted), UNUSABLE)] += 1
    return events, odd, repeats


def content(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS)


class Shipment(NamedTuple):
    fleet: Fleet
    batches: list[list[Record]]

    def __repr__(self) -> str:
        """Hypothesis takes a long text for an error: the rows in short."""
        return str([[" ".join(_short(row[name]) for name in SHOWN) for row in batch] for batch in self.batches])


SHOWN = ("source_file", "event_id", "kind", "code")


def _short(value: object) -> str:
    return value[6:].hex() if isinstance(value, bytes) else str(value)


@st.composite
def shipments(draw: st.DrawFn) -> Shipment:
    """Facts of some writers in files that come in any order, with rows in several of them, contradicted or broken."""
    fleet = Fleet()
    for who in range(1, draw(st.integers(1, 3)) + 1):
        fleet.write(who, draw(TRACES))
    unusable = other_row(1, 1_000, "arrived")
    names = "abcdef"
    shipped: dict[str, list[Record]] = {name: [] for name in names}
    for row in [*fleet.rows, *draw(st.lists(st.just(unusable), max_size=1))]:
        for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
            shipped[name].append(row | {"source_file": name})
        for _ in range(draw(st.sampled_from([0] * 9 + [1, 2]))):
            name = draw(st.sampled_from(names))
            odd = draw(
                st.sampled_from([{"code": "changed"}, {"kind": "sneezed", "reason": "kind: must be a known word"}])
            )
            shipped[name].append(row | {"source_file": name} | odd)
    order = draw(st.permutations(names))
    size = draw(st.integers(1, 3))
    batches = [[row for name in order[at : at + size] for row in shipped[name]] for at in range(0, 6, size)]
    return Shipment(fleet, batches)


@clause("13.2", "13.7")
@settings(max_examples=60, deadline=None)
@given(shipments())
def test_rows_that_come_in_any_parts_and_order_make_the_tables_of_all_at_once(shipment: Shipment) -> None:
    fleet, batches = shipment
    rows = [row for batch in batches for row in batch]
    sound = [row for row in rows if row["reason"] is None]
    events, odd, repeats = at_once(rows)
    changed = {row[0] for row in events if "changed" in row}
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FAN", 2)
        patch.setattr(bucket_step, "FAN", 2)
        patch.setattr(dedup_runs, "MERGED_AT_ONCE", 2)
        bucket = FedBucket(Path(made), signed=SIGNED)
        for batch in batches:
            bucket.feed(batch)
        assert bucket.events() == Counter(events)
        assert bucket.signed_events() == {row["event_id"] for row in sound if row["source_file"] in SIGNED} & {
            row[0] for row in events
        }
        assert bucket.quarantine() == odd
        assert bucket.told() == fleet.told({row[0] for row in events}, changed=changed)
        assert (bucket.counts.events, bucket.counts.duplicates) == (len(events), repeats)
        unusable = sum(count for row, count in odd.items() if row[-1] == UNUSABLE)
        assert bucket.counts.quarantined == odd.total() - unusable


@clause("13.2")
@settings(max_examples=30, deadline=None)
@given(shipments())
def test_each_step_says_which_events_came_and_which_went(shipment: Shipment) -> None:
    _, batches = shipment
    events: set[tuple[Any, ...]] = set()
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FAN", 2)
        patch.setattr(bucket_step, "FAN", 2)
        bucket = FedBucket(Path(made), signed=SIGNED)
        for batch in batches:
            step = bucket.feed(batch)
            gone = {row["event_id"] for row in bucket.rows(step.went) if row["reason"] == CONFLICT}
            came = Counter(content(row) for row in bucket.rows(step.came))
            events = {row for row in events if row[0] not in gone} | set(came)
            assert came.total() == len(came)
            assert bucket.events() == Counter(events)


def arrivals(who: int, *numbers: int) -> list[Record]:
    """One session, whose message n is fact n + 1."""
    rows = [fact_row(who, n + 1, TraceFact(0, "arrived", 0, n, n), 1_000 * n) for n in numbers]
    return [row | {"source_file": "a"} for row in rows]


def copy_in(name: str, **changes: Any) -> Record:
    return other_row(1, 1, **changes) | {"source_file": name}


FORGED = {"code": "changed"}


@clause("13.1", "13.2")
@pytest.mark.parametrize("order", ["abd", "adb", "bad", "bda", "dab", "dba"])
def test_files_that_are_not_signed_neither_hide_a_signed_event_nor_make_it_unverified(
    tmp_path: Path, order: str
) -> None:
    rows = {"a": copy_in("a"), "b": copy_in("b"), "d": copy_in("d", **FORGED)}
    bucket = FedBucket(tmp_path, signed=SIGNED)
    for name in order:
        bucket.feed([rows[name]])
    assert [(row["source_file"], row["code"]) for row in bucket.table("events")] == [("b", None)]
    assert [(row["source_file"], row["reason"]) for row in bucket.table("quarantine")] == [("d", CONFLICT)]
    assert [row["source_file"] for row in bucket.table("repeats")] == ["a"]


@clause("13.1", "13.2")
def test_an_event_that_was_forged_in_a_file_before_it_was_whole_and_signed_is_the_signed_one(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path, signed=frozenset())
    bucket.feed([copy_in("b", **FORGED)])
    bucket.signed = SIGNED
    bucket.feed([copy_in("b")], reread=frozenset({"b"}))
    assert [row["code"] for row in bucket.table("events")] == [None]


@clause("13.2")
def test_a_late_fact_is_counted_and_its_session_judged_again(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path)
    bucket.feed(arrivals(1, 0, 2, 3))
    assert [told.placement for told in bucket.told().values()] == ["released", "held", "held"]
    step = bucket.feed([*arrivals(1, 1), *arrivals(2, 0)])
    assert (step.counts.late, step.counts.reprocessed) == (1, 1)
    assert {told.placement for told in bucket.told().values()} == {"released"}


def test_steps_leave_few_files_and_lose_none_of_their_rows(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path)
    for number in range(100):
        bucket.feed(arrivals(1, number))
    assert len(bucket.told()) == sum(bucket.events().values()) == 100
    assert all(len(getattr(bucket.bucket, kind)) < 2 * compaction.FAN for kind in KINDS_OF_FILES)
    assert sum(ref.rows for ref in bucket.bucket.seen) == 100


def test_runs_are_merged_one_range_of_keys_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup_runs, "MERGED_AT_ONCE", 50)
    bucket = FedBucket(tmp_path)
    for number in range(compaction.FAN):
        bucket.feed(arrivals(1, *range(100 * number, 100 * number + 100)))
    [run] = bucket.bucket.seen
    pieces = bucket_files.BucketWriter(str(tmp_path), 0, tmp_path / "cache").read_state(run).to_batches()
    assert max(map(len, pieces)) < 100
    keys = [key for piece in pieces for key in piece["key"].to_pylist()]
    assert keys == sorted(keys)
    assert len(set(keys)) == 100 * compaction.FAN
    step = bucket.feed(arrivals(1, *range(0, 100 * compaction.FAN, 7)))
    assert (step.counts.events, step.counts.duplicates) == (0, len(range(0, 100 * compaction.FAN, 7)))


def test_what_was_seen_is_forgotten_after_the_window(tmp_path: Path) -> None:
    bucket = FedBucket(tmp_path)
    for number in range(100):
        row = fact_row(1, number + 1, TraceFact(0, "arrived", 0, number, number), number * DAY_MS)
        bucket.feed([row | {"source_file": "a"}])
    kept = sum(ref.rows for ref in bucket.bucket.seen)
    assert 31 <= kept <= 2 * 31 + compaction.FAN


def session_rows(bucket: FedBucket) -> int:
    return sum(ref.rows for ref in bucket.bucket.sessions)


@clause("13.2")
def test_sessions_are_forgotten_after_the_window_and_answers_stay_those_of_the_core(tmp_path: Path) -> None:
    """A session a day that never goes on, of two recipients, one of whom is gone after a while; one that wakes up."""
    fleet, bucket = Fleet(), FedBucket(tmp_path)
    sleeper = [TraceFact(0, "arrived", 0, 0, 0), TraceFact(0, "arrived", 80 * DAY_MS, 2, 2)]
    sleeper += [TraceFact(0, "arrived", 1_000, 1, 1), TraceFact(0, "arrived", 1_000, 0, 0)]
    daily = [TraceFact(1 + day, "arrived", DAY_MS, 0, 100 + day) for day in range(90)]
    for who, trace in ((1, sleeper), (2, daily), (3, daily[:20])):
        fleet.write(who, trace)
    most = 0
    for row in sorted(fleet.rows, key=lambda row: row["at_ms"]):
        bucket.feed([row | {"source_file": "a"}])
        most = max(most, session_rows(bucket))
    assert most <= 2 * 31 + 2
    assert session_rows(bucket) <= 31 + 2
    assert bucket.counts.reprocessed == 1
    assert bucket.told() == fleet.told(set(fleet.facts))
    assert sum(ref.rows for ref in bucket.bucket.forgotten) >= 90 + 20 - 31


def test_who_was_forgotten_is_known_after_an_event_was_revoked(tmp_path: Path) -> None:
    fleet, bucket = Fleet(), FedBucket(tmp_path)
    trace = [TraceFact(1, "passed", 0), TraceFact(0, "passed", 0), TraceFact(1, "passed", 20 * DAY_MS)]
    fleet.write(1, [*trace, TraceFact(2, "passed", 20 * DAY_MS)])
    first, retracted, second, later, _ = [row | {"source_file": "a"} for row in fleet.rows]
    bucket.feed([first, retracted, later])
    bucket.feed([retracted | {"code": "changed", "source_file": "b"}])
    bucket.feed([second])
    assert bucket.counts.retracted == 1
    assert bucket.told() == fleet.told({row["event_id"] for row in (first, second, later)})


@settings(max_examples=60, deadline=None)
@given(TRACES, st.lists(st.integers(0, 40), max_size=6).map(sorted))
def test_a_session_that_was_forgotten_goes_on_as_if_it_had_not_been(trace: list[TraceFact], cuts: list[int]) -> None:
    """With a window of nothing all sessions are forgotten after every step."""
    fleet = Fleet()
    fleet.write(1, trace)
    rows = [row | {"source_file": "a"} for row in fleet.rows]
    with tempfile.TemporaryDirectory() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(retired_sessions, "CLOCK_SLACK_MS", -DEDUP.window_ms)
        bucket = FedBucket(Path(made))
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            bucket.feed(rows[start:end])
        assert bucket.told() == fleet.told(set(fleet.facts))
        assert session_rows(bucket) == 0
