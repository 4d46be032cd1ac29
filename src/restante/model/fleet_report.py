"""The fleet report as plain values: no Spark, no formatting."""

from dataclasses import dataclass, field

from restante.model.conservation_report import ConservationReport, ReadFrom
from restante.model.fleet_actions import ActionKind
from restante.model.ids import MessageId, NodeId, WriterId
from restante.model.kinds import Kind, Priority
from restante.model.provenance import Certainty, Provenance
from restante.model.states import DeadCategory, State


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLevel:
    """Delivery figures of one hour. `message_kind` and `priority` are None for all together."""

    hour_ms: int
    message_kind: Kind | None
    priority: Priority | None
    is_total: bool
    accepted: int
    delivered: int
    in_flight: int
    delivery_rate: float | None
    p50_ms: float | None
    p99_ms: float | None
    duplicates: int
    repeated_releases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBar:
    """Deliveries that took at least `lower_bound_ms` and less than the next bar's. None counts negative ones (clock
    skew)."""

    lower_bound_ms: int | None
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScore:
    """The score of one node and the measurements it is computed from (SPEC 7.3)."""

    node: NodeId
    score: float
    uptime: float
    bandwidth_bps: int
    latency_ms: float
    withheld: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldMessage:
    """A message that a node signed for, and that its later signed list lacks (SPEC 13.5); both times are by its clock.

    `certainty` says whether verified events alone show it.
    """

    node: NodeId
    message_id: MessageId
    stored_at_ms: int
    absent_at_ms: int
    certainty: Certainty = Certainty.UNVERIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyAffected:
    """A message that the missing events were probably about."""

    message_id: MessageId
    writer: WriterId
    state: State
    missing_from: int
    missing_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewedClock:
    """A writer whose clock is far off; `offset_ms` is the median against its correspondents."""

    writer: WriterId
    messages: int
    impossible: int
    offset_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGap:
    """Sequence numbers of a session that its recipient skipped."""

    writer: WriterId
    at_ms: int
    first_sequence: int | None
    last_sequence: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """How many dead letters one category and code have, and how many of them are due for a retry."""

    category: DeadCategory
    code: str | None
    letters: int
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """The whole report. Deadlines are evaluated at `as_of_ms`. `read_from` is left out of comparisons."""

    as_of_ms: int
    read_from: ReadFrom = field(compare=False)
    conservation: ConservationReport
    likely_affected: tuple[LikelyAffected, ...]
    levels: tuple[ServiceLevel, ...]
    histogram: tuple[LatencyBar, ...]
    nodes: tuple[NodeScore, ...]
    withheld: tuple[WithheldMessage, ...]
    withheld_count: int
    skewed_clocks: tuple[SkewedClock, ...]
    gaps: tuple[SequenceGap, ...]
    gap_count: int
    letters: tuple[LetterCount, ...]
    security: tuple[tuple[str, int], ...]
    actions: tuple[tuple[ActionKind, int], ...]
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def sound(self) -> bool:
        """Return whether the report is balanced and complete, no segment is missing and no node withheld a message."""
        return (
            self.conservation.balanced
            and self.conservation.complete
            and self.withheld_count == 0
            and not self.provenance.missing
            and not self.provenance.contested
        )
