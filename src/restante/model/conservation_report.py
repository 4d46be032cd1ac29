"""The conservation report as plain values: day balances, what is unaccounted for, missing events, latency."""

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
"""1, 2, 5, 10 ... ms: three bars a decade show a distribution over seven of them."""


class Inconsistency(StrEnum):
    """Why the facts about a message cannot be the whole truth (SPEC 1.4)."""

    NAMELESS = "nameless"
    """Facts that change a message's state but name no message; all of them together are one row."""
    NEVER_ACCEPTED = "never_accepted"
    """It is known, but no fact tells of its acceptance."""
    ACCEPTED_LATE = "accepted_late"
    """It was accepted when it had a state already: twice, or after something else."""
    MOVED_AFTER_END = "moved_after_end"
    """It ended, and then its state changed without a recovery."""
    RECOVERED_ALIVE = "recovered_alive"
    """It was recovered though it was no dead letter (SPEC 5.4)."""
    SEVERAL_SENDERS = "several_senders"
    """More than one writer says to have changed its state."""


class Withheld(StrEnum):
    """What speaks against the node."""

    NEVER_STORED = "never_stored"
    """It signed, its journal goes on after that, and no fact of it tells that the message was stored."""
    DROPPED_EARLY = "dropped_early"
    """It deleted the message before its time without having handed it to its owner."""
    SILENT_AND_LOST = "silent_and_lost"
    """It signed, nothing more is known from it, and the message ended without having arrived."""


class ReadFrom(StrEnum):
    STREAM = "stream"
    TABLES = "tables"
    SEGMENTS = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSegment:
    """A file that could not be read, or not to its end."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayBalance:
    """What became of the messages accepted on one day; `day` is None for all days together (SPEC 13.4)."""

    day: date | None
    accepted: int = 0
    delivered: int = 0
    expired: int = 0
    evicted: int = 0
    dead: int = 0
    in_flight: int = 0
    unaccounted: int = 0
    adds_up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaccountedMessage:
    """A message whose facts cannot be the whole truth. `message_id` is None for facts that name no message."""

    message_id: MessageId | None
    doubt: Inconsistency
    state: State | None
    last_fact: JournalKind
    last_fact_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEvents:
    """Facts that a writer numbered and that never came; `last_fact` is the one before them, None at the start."""

    writer: WriterId
    missing_from: int
    missing_to: int
    last_fact: JournalKind | None
    last_fact_at_ms: int | None
    last_message_id: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long messages took; `message_kind` is None for all kinds together, or for messages that say no kind."""

    span: str
    message_kind: Kind | None
    of_all_kinds: bool
    messages: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRows:
    """How many rows of one file were refused for one reason."""

    source_file: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConservationReport:
    """input_rows = events + duplicates + quarantined rows; of a file in `bad_files`, what was read of it counts."""

    segments: int
    input_rows: int
    events: int
    duplicates: int
    quarantine: tuple[QuarantinedRows, ...]
    bad_files: tuple[BadSegment, ...]
    books: tuple[DayBalance, ...]
    unaccounted: tuple[UnaccountedMessage, ...]
    holes: tuple[MissingEvents, ...]
    hole_count: int
    latency: tuple[Latency, ...]

    @property
    def quarantined_rows(self) -> int:
        return sum(entry.rows for entry in self.quarantine)

    @property
    def total(self) -> DayBalance:
        """The books of all days in one line."""
        return reduce(_plus, self.books, DayBalance(day=None))

    @property
    def balanced(self) -> bool:
        """Everything accepted is accounted for, and no writer's facts have a hole."""
        return self.total.adds_up and self.total.unaccounted == 0 and self.hole_count == 0

    @property
    def complete(self) -> bool:
        """All that was there could be read. If not, balanced books may still be short of a writer's last facts."""
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
        adds_up=one.adds_up and other.adds_up,
    )
