"""The conservation report as plain values: day balances, unaccounted messages, missing events, latency."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import reduce
from typing import Final

from restante.model.ids import MessageId, WriterId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind
from restante.model.states import State

HISTOGRAM_EDGES_MS: Final = (0, *(step * 10**power for power in range(9) for step in (1, 2, 5)))
"""Lower bounds of the histogram's bars: 1, 2, 5, 10 … ms, three bars per decade."""


class Inconsistency(StrEnum):
    """Why the events about a message contradict each other or are incomplete (SPEC 1.4)."""

    MISSING_MESSAGE_ID = "missing_message_id"
    """Events that change a message's state but carry no message id. They are counted together in one row."""
    NEVER_ACCEPTED = "never_accepted"
    """There are events about the message, but none that records its acceptance."""
    ACCEPTED_AGAIN = "accepted_again"
    """The message was accepted when it already had a state: accepted twice, or after another event."""
    CHANGED_AFTER_END = "changed_after_end"
    """The message's state changed after it had ended, without a recovery."""
    RECOVERED_IN_FLIGHT = "recovered_in_flight"
    """The message was recovered although it was not a dead letter (SPEC 5.4)."""
    MULTIPLE_SENDERS = "multiple_senders"
    """More than one writer journaled a change of the message's state."""


class ReadFrom(StrEnum):
    """Which input the report was computed from."""

    STREAM = "stream"
    TABLES = "tables"
    SEGMENTS = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSegment:
    """A segment file that could not be read completely."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBalance:
    """Counts of the messages accepted on one day, by what became of them (SPEC 13.4). `day` is None for all days
    together."""

    day: date | None
    accepted: int = 0
    delivered: int = 0
    expired: int = 0
    evicted: int = 0
    dead: int = 0
    in_flight: int = 0
    unaccounted: int = 0
    is_balanced: bool = True
    stored_never_arrived: int = 0
    """Of the expired and dead ones, those that a node had confirmed to store. It accuses no node (SPEC 13.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaccountedMessage:
    """A message whose events are inconsistent. `message_id` is None for events that carry no message id."""

    message_id: MessageId | None
    inconsistency: Inconsistency
    state: State | None
    last_event: JournalKind
    last_event_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEvents:
    """Event numbers of a writer that never arrived. `last_event` is the event before them, None at the start of the
    journal."""

    writer: WriterId
    missing_from: int
    missing_to: int
    last_event: JournalKind | None
    last_event_at_ms: int | None
    last_message_id: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long messages took. `message_kind` is None for all kinds together, and for messages whose kind is unknown."""

    span: str
    message_kind: Kind | None
    is_total: bool
    messages: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """How many rows of one file were rejected for one reason."""

    source_file: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConservationReport:
    """The whole report. `input_rows` = `events` + `duplicates` + quarantined rows.

    Rows that were read from a file listed in `bad_files` are counted.
    """

    segments: int
    input_rows: int
    events: int
    duplicates: int
    quarantine: tuple[QuarantinedRows, ...]
    bad_files: tuple[BadSegment, ...]
    days: tuple[DayBalance, ...]
    unaccounted: tuple[UnaccountedMessage, ...]
    missing_events: tuple[MissingEvents, ...]
    missing_event_count: int
    latency: tuple[Latency, ...]

    @property
    def quarantined_rows(self) -> int:
        return sum(entry.rows for entry in self.quarantine)

    @property
    def total(self) -> DayBalance:
        """Return the sum of all days."""
        return reduce(_plus, self.days, DayBalance(day=None))

    @property
    def balanced(self) -> bool:
        """Return whether every accepted message is accounted for and no writer has missing events."""
        return self.total.is_balanced and self.total.unaccounted == 0 and self.missing_event_count == 0

    @property
    def complete(self) -> bool:
        """Return whether all input could be read. If not, the last events of a writer may be missing unnoticed."""
        return not self.bad_files and not self.quarantine


def _plus(one: DayBalance, other: DayBalance) -> DayBalance:
    return DayBalance(
        day=None,
        accepted=one.accepted + other.accepted,
        delivered=one.delivered + other.delivered,
        expired=one.expired + other.expired,
        evicted=one.evicted + other.evicted,
        dead=one.dead + other.dead,
        in_flight=one.in_flight + other.in_flight,
        unaccounted=one.unaccounted + other.unaccounted,
        is_balanced=one.is_balanced and other.is_balanced,
        stored_never_arrived=one.stored_never_arrived + other.stored_never_arrived,
    )
