"""A fleet report with something in every section, and names from the lake that try to be markup."""

from dataclasses import replace
from datetime import date

from restante.model.conservation_report import (
    BadSegment,
    ConservationReport,
    DayBalance,
    Inconsistency,
    Latency,
    MissingEvents,
    QuarantinedRows,
    ReadFrom,
    UnaccountedMessage,
)
from restante.model.fleet_actions import ActionKind
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
from restante.model.ids import MessageId, NodeId, WriterId
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.model.states import DeadCategory, State

HOUR_MS = 3_600_000
START_MS = 1_767_225_600_000  # 2026-01-01, a Thursday
HOURS = 21 * 24
NASTY = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
MESSAGE = MessageId(bytes.fromhex("00112233445546778899aabbccddeeff"))
WRITER = WriterId(b"W" * 16)
NODE = NodeId(b"\xee" * 32)


def level(hour: int, **values: object) -> ServiceLevel:
    busy = 300 + 250 * (8 <= hour % 24 <= 21)
    usual = ServiceLevel(
        hour_ms=START_MS + hour * HOUR_MS,
        message_kind=None,
        priority=None,
        is_total=True,
        accepted=busy,
        delivered=busy - (hour % 50 == 0),
        in_flight=0,
        delivery_rate=1 - (hour % 50 == 0) / busy,
        p50_ms=480.0 + hour % 7,
        p99_ms=6_000.0 if hour % 90 else 900_000.0,
        duplicates=3,
        repeated_releases=0,
    )
    return replace(usual, **values)  # type: ignore[arg-type]  # names and types are those of the fields


def full_report() -> FleetReport:
    days = tuple(
        DayBalance(day=date(2026, 1, day), accepted=9_000, delivered=8_990, expired=3, dead=4, in_flight=3)
        for day in range(1, 22)
    )
    conservation = ConservationReport(
        segments=3,
        input_rows=1_000_000,
        events=999_990,
        duplicates=9,
        quarantine=(QuarantinedRows(source_file=NASTY, reason=NASTY, rows=1),),
        bad_files=(BadSegment(name=NASTY, reason=NASTY), BadSegment(name="x" * 200, reason="y" * 300)),
        days=days,
        unaccounted=(
            UnaccountedMessage(
                message_id=MESSAGE,
                inconsistency=Inconsistency.NEVER_ACCEPTED,
                state=State.SENT,
                last_event=JournalKind.SENT,
                last_event_at_ms=START_MS,
            ),
        ),
        missing_events=(
            MissingEvents(
                writer=WRITER,
                missing_from=2**63,
                missing_to=2**64 - 1,
                last_event=None,
                last_event_at_ms=None,
                last_message_id=None,
            ),
        ),
        missing_event_count=1,
        latency=tuple(
            Latency(
                span="accepted_to_delivered",
                message_kind=None if is_total else Kind.TEXT,
                is_total=is_total,
                messages=189_000,
                p50_ms=480.0,
                p90_ms=900.0,
                p99_ms=12_345.0,
                max_ms=999_999_999,
            )
            for is_total in (True, False)
        ),
    )
    hourly = tuple(level(hour) for hour in range(HOURS))
    kinds = tuple(level(0, message_kind=Kind.TEXT, priority=priority, is_total=False) for priority in Priority)
    return FleetReport(
        as_of_ms=START_MS + HOURS * HOUR_MS,
        read_from=ReadFrom.TABLES,
        conservation=conservation,
        likely_affected=(
            LikelyAffected(message_id=MESSAGE, writer=WRITER, state=State.SENT, missing_from=1, missing_to=9),
        ),
        levels=(*hourly, *kinds),
        histogram=tuple(LatencyBar(lower_bound_ms=edge, messages=edge) for edge in (100, 200, 500, 1_000, 50_000)),
        nodes=tuple(
            NodeScore(
                node=NodeId(bytes([number]) * 32),
                score=0.5,
                uptime=0.9,
                bandwidth_bps=123_456_789,
                latency_ms=80.0,
                withheld=number,
            )
            for number in range(12)
        ),
        withheld=tuple(
            WithheldMessage(
                node=NODE,
                message_id=MESSAGE,
                stored_at_ms=START_MS,
                absent_at_ms=START_MS + HOUR_MS,
            )
            for _ in range(60)
        ),
        withheld_count=60,
        skewed_clocks=(SkewedClock(writer=WRITER, messages=9, impossible=9, offset_ms=-(10**12)),),
        gaps=(SequenceGap(writer=WRITER, at_ms=START_MS, first_sequence=3, last_sequence=2**62),),
        gap_count=1,
        letters=(
            LetterCount(category=DeadCategory.RETRIABLE, code="E001", letters=40, due=4),
            LetterCount(category=DeadCategory.EXPIRED, code="E010", letters=9, due=0),
            LetterCount(category=DeadCategory.PERMANENT, code=NASTY, letters=1, due=0),
        ),
        security=((NASTY, 3),),
        actions=((ActionKind.REDRIVE, 2),),
    )
