"""Make the fleet report: conservation, service levels, nodes, gaps, dead letters and actions.

The report is plain values. Each list ends at LISTED_AT_MOST; its count does not.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.jobs.conservation_report import LISTED_AT_MOST, Rows, first_rows, prescanned, report_on, tasks_for
from restante.fleet.jobs.report_input import check_has_all_events, look_at, source_of
from restante.fleet.lake.segments import Segment
from restante.fleet.spark.cached_tables import cached_tables
from restante.fleet.spark.session import open_session
from restante.fleet.tables.definitions import FleetTables, fleet_tables, trusted_actions, verified_tables
from restante.fleet.transforms.validate import event_rows, events
from restante.model.conservation_report import BadSegment, ReadFrom
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.fleet_report import (
    FleetReport,
    LatencyBar,
    LetterCount,
    LikelyAffected,
    NodeScore,
    SequenceGap,
    ServiceLevel,
    SkewedClock,
    WithheldMessage,
)
from restante.model.ids import MessageId, NodeId, PayloadHash, WriterId
from restante.model.kinds import Kind, Priority
from restante.model.provenance import Certainty, Provenance, provenance_of
from restante.model.states import DeadCategory, State
from restante.policy.dead_letters import DeadLetterRetention

STAGES: Final = ("reading segments", "conservation", "service levels", "nodes", "gaps and dead letters", "actions")

OnStage = Callable[[str], None]
OnAction = Callable[[FleetAction], None]


def run_fleet_report(
    where: str,
    *,
    master: str = "local[*]",
    now_ms: int,
    retention: DeadLetterRetention,
    on_stage: OnStage = lambda _stage: None,
    on_action: OnAction | None = None,
    is_past: bool = False,
    operator_key: bytes | None = None,
) -> FleetReport:
    """Make the report in a new Spark session; `on_action` gets every proposed action.

    `where` is a directory of segments, or a lake (jobs/report_input). If `is_past`, only events up to `now_ms` count.
    Without the operator's public key no signature is checked, and no action is proposed.
    """
    place = look_at(where, operator_key)
    if is_past:
        check_has_all_events(place)
    with open_session(app_name="restante fleet report", master=master) as spark:
        source = source_of(spark, place)
        return make_fleet_report(
            spark,
            source.segments,
            source.bad,
            now_ms=now_ms,
            retention=retention,
            on_stage=on_stage,
            on_action=on_action,
            rows=source.rows,
            read_from=source.read_from,
            tables=source.tables,
            is_past=is_past,
        )


def make_fleet_report(
    spark: SparkSession,
    segments: list[Segment],
    bad: list[BadSegment],
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    on_stage: OnStage = lambda _stage: None,
    on_action: OnAction | None = None,
    rows: Rows | None = None,
    read_from: ReadFrom = ReadFrom.SEGMENTS,
    tables: FleetTables | None = None,
    is_past: bool = False,
) -> FleetReport:
    """Make the report on `segments`, or on their `rows` if these have verdicts already."""
    on_stage(STAGES[0])
    provenance = provenance_of(segment.claim for segment in segments)
    rows = prescanned(spark, segments) if rows is None else rows
    with rows as (verdicts, found), cached_tables() as keep:
        partitions = tasks_for(spark, found)
        if tables is None or is_past:
            known = events(verdicts)
            tables = fleet_tables(
                known.filter(sf.col("at_ms") <= now_ms) if is_past else known,
                now_ms=now_ms,
                retention=retention,
                partitions=partitions,
                keep=keep,
            )
        sources = event_rows(verdicts)
        sources = sources.filter(sf.col("at_ms") <= now_ms) if is_past else sources
        trust = _Trust(sources, provenance, now_ms=now_ms, retention=retention, partitions=partitions)
        on_stage(STAGES[1])
        conservation = report_on(found, tables.by_name, segments=segments, bad=bad)
        likely_affected = (
            first_rows(tables["likely_affected"], "message_id") if conservation.missing_event_count else []
        )
        on_stage(STAGES[2])
        levels = tables["service_levels"].orderBy("hour_ms", "is_total", "message_kind", "priority").collect()
        bars = tables["latency_histogram"].groupBy("lower_bound_ms").agg(sf.sum("messages").alias("messages"))
        histogram = bars.orderBy("lower_bound_ms").collect()
        on_stage(STAGES[3])
        nodes = first_rows(tables["node_scores"], "score", "node")
        withheld, withheld_count = _listed(tables["withholding"], "stored_at_ms", "node", "message_id")
        on_stage(STAGES[4])
        skewed = first_rows(tables["clock_skew"], "writer")
        gaps, gap_count = _listed(tables["gaps"], "at_ms", "event_id")
        letters = _letters(tables["dead_letters"], now_ms)
        what = sf.coalesce("code", "kind").alias("what")  # a changed session has no code
        security = tables["security_events"].groupBy(what).count().collect()
        on_stage(STAGES[5])
        return FleetReport(
            as_of_ms=now_ms,
            read_from=read_from,
            conservation=conservation,
            likely_affected=tuple(map(_likely_affected, likely_affected)),
            levels=tuple(map(_level, levels)),
            histogram=tuple(LatencyBar(**row.asDict()) for row in histogram),
            nodes=tuple(map(_node, nodes)),
            withheld=tuple(_withheld(row, trust) for row in withheld),
            withheld_count=withheld_count,
            skewed_clocks=tuple(map(_skewed, skewed)),
            gaps=tuple(map(_gap, gaps)),
            gap_count=gap_count,
            letters=letters,
            security=tuple(sorted((row["what"], row["count"]) for row in security)),
            actions=_actions(trust.actions(tables), on_action),
            provenance=provenance,
        )


class _Trust:
    """What follows from verified segments alone. Its tables are built only where some segments are not verified."""

    def __init__(
        self,
        events: DataFrame,
        provenance: Provenance,
        *,
        now_ms: int,
        retention: DeadLetterRetention,
        partitions: int,
    ) -> None:
        self._events = events
        self._provenance = provenance
        self._now_ms = now_ms
        self._retention = retention
        self._partitions = partitions

    def actions(self, tables: FleetTables) -> DataFrame:
        return trusted_actions(
            tables,
            self._events,
            self._provenance,
            now_ms=self._now_ms,
            retention=self._retention,
            partitions=self._partitions,
        )

    @cached_property
    def withheld(self) -> frozenset[tuple[bytes, bytes]]:
        """Node and message of what a node withheld by verified events alone."""
        found = verified_tables(
            self._events,
            self._provenance,
            now_ms=self._now_ms,
            retention=self._retention,
            partitions=self._partitions,
        )["withholding"]
        return frozenset((bytes(row["node"]), bytes(row["message_id"])) for row in found.collect())

    def certainty_of(self, node: bytes, message_id: bytes) -> Certainty:
        if self._provenance.certainty is not Certainty.PARTLY_VERIFIED:
            return self._provenance.certainty
        return Certainty.VERIFIED if (node, message_id) in self.withheld else Certainty.UNVERIFIED


def _listed(table: DataFrame, *order: str) -> tuple[list[Row], int]:
    """The first rows, and how many there are."""
    rows = first_rows(table, *order)
    return rows, len(rows) if len(rows) < LISTED_AT_MOST else table.count()


def _actions(proposed: DataFrame, on_action: OnAction | None) -> tuple[tuple[ActionKind, int], ...]:
    if on_action is None:
        rows = proposed.groupBy("action").count().collect()
        counts = {ActionKind(row["action"]): row["count"] for row in rows}
    else:
        counts = {}
        for row in proposed.toLocalIterator():
            action = _action(row)
            counts[action.action] = counts.get(action.action, 0) + 1
            on_action(action)
    return tuple((kind, counts[kind]) for kind in ActionKind if kind in counts)


def _letters(table: DataFrame, now_ms: int) -> tuple[LetterCount, ...]:
    rows = (
        table.filter(sf.col("discarded_at_ms").isNull())
        .groupBy("category", "code")
        .agg(
            sf.count(sf.lit(1)).alias("letters"),
            sf.count_if(sf.col("next_retry_at_ms") <= now_ms).alias("due"),
        )
        .orderBy("category", "code")
        .collect()
    )
    return tuple(
        LetterCount(category=DeadCategory(row["category"]), code=row["code"], letters=row["letters"], due=row["due"])
        for row in rows
    )


def _level(row: Row) -> ServiceLevel:
    values = row.asDict()
    kind, priority = values.pop("message_kind"), values.pop("priority")
    return ServiceLevel(
        message_kind=None if kind is None else Kind(kind),
        priority=None if priority is None else Priority(priority),
        **values,
    )


def _node(row: Row) -> NodeScore:
    return NodeScore(**row.asDict() | {"node": NodeId(bytes(row["node"]))})


def _withheld(row: Row, trust: _Trust) -> WithheldMessage:
    return WithheldMessage(
        certainty=trust.certainty_of(bytes(row["node"]), bytes(row["message_id"])),
        node=NodeId(bytes(row["node"])),
        message_id=MessageId(bytes(row["message_id"])),
        stored_at_ms=row["stored_at_ms"],
        absent_at_ms=row["absent_at_ms"],
    )


def _likely_affected(row: Row) -> LikelyAffected:
    return LikelyAffected(
        message_id=MessageId(bytes(row["message_id"])),
        writer=WriterId(bytes(row["writer"])),
        state=State(row["state"]),
        missing_from=int(row["missing_from"]),
        missing_to=int(row["missing_to"]),
    )


def _skewed(row: Row) -> SkewedClock:
    return SkewedClock(**row.asDict() | {"writer": WriterId(bytes(row["writer"]))})


def _gap(row: Row) -> SequenceGap:
    return SequenceGap(
        writer=WriterId(bytes(row["writer"])),
        at_ms=row["at_ms"],
        first_sequence=row["first_sequence"],
        last_sequence=row["last_sequence"],
    )


def _action(row: Row) -> FleetAction:
    raw = {
        name: None if row[name] is None else bytes(row[name])
        for name in ("target", "message_id", "payload_hash", "node")
    }
    return FleetAction(
        action=ActionKind(row["action"]),
        target=None if raw["target"] is None else WriterId(raw["target"]),
        message_id=None if raw["message_id"] is None else MessageId(raw["message_id"]),
        payload_hash=None if raw["payload_hash"] is None else PayloadHash(raw["payload_hash"]),
        node=None if raw["node"] is None else NodeId(raw["node"]),
        score=row["score"],
        event_at_ms=row["event_at_ms"],
        reason=row["reason"],
        as_of_ms=row["as_of_ms"],
    )
