"""When a fleet's tables call for attention: measurements in, alerts out. No clock, no tables."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from restante.model.service_targets import (
    DELIVERY_RATE_TARGET,
    P50_TARGET_MS,
    P99_TARGET_MS,
    REPEATED_RELEASE_TARGET,
)

SILENT_MS: Final = 24 * 3_600_000
LAG_MS: Final = 15 * 60_000


class AlertKind(StrEnum):
    UNBALANCED = "unbalanced"
    MISSING_EVENTS = "missing_events"
    SILENT_WRITER = "silent_writer"
    WITHHOLDING = "withholding"
    LAG = "lag"
    ERROR_BUDGET = "error_budget"
    CLOCK_SKEW = "clock_skew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`subject` is what it is about: a writer or a node as hex, a day, or a target."""

    kind: AlertKind
    subject: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMeasures:
    """What alerts are decided by. Times are Unix milliseconds; `latest_by_writer` is each writer's newest event."""

    now_ms: int
    unbalanced_days: tuple[tuple[str, int], ...] = ()
    missing_events: tuple[tuple[str, int], ...] = ()
    latest_by_writer: tuple[tuple[str, int], ...] = ()
    withholding: tuple[tuple[str, int], ...] = ()
    skewed: tuple[tuple[str, int], ...] = ()
    last_batch_at_ms: int | None = None
    accepted: int = 0
    ended: int = 0
    delivered: int = 0
    repeated_releases: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


def alerts(measures: FleetMeasures) -> list[Alert]:
    """Return all alerts, the gravest kind first."""
    found = [
        *_counted(AlertKind.UNBALANCED, measures.unbalanced_days, "{:,} messages are unaccounted for"),
        *_counted(AlertKind.MISSING_EVENTS, measures.missing_events, "{:,} events never arrived"),
        *_counted(AlertKind.WITHHOLDING, measures.withholding, "signed for {:,} messages that its later lists lack"),
        *_counted(AlertKind.CLOCK_SKEW, measures.skewed, "its clock is off by {:,} ms"),
        *_silent(measures),
        *_error_budget(measures),
    ]
    if measures.last_batch_at_ms is not None and measures.now_ms - measures.last_batch_at_ms > LAG_MS:
        seconds = (measures.now_ms - measures.last_batch_at_ms) // 1_000
        found.append(Alert(kind=AlertKind.LAG, subject="stream", detail=f"the last batch was {seconds:,} s ago"))
    return found


def _counted(kind: AlertKind, subjects: tuple[tuple[str, int], ...], detail: str) -> list[Alert]:
    return [Alert(kind=kind, subject=subject, detail=detail.format(count)) for subject, count in subjects if count]


def _silent(measures: FleetMeasures) -> list[Alert]:
    """Writers that were heard of, and not for a day."""
    return [
        Alert(
            kind=AlertKind.SILENT_WRITER,
            subject=writer,
            detail=f"its newest event is {(measures.now_ms - at_ms) // 3_600_000:,} h old",
        )
        for writer, at_ms in measures.latest_by_writer
        if measures.now_ms - at_ms > SILENT_MS
    ]


def _error_budget(measures: FleetMeasures) -> list[Alert]:
    """The targets of SPEC 1.7 that are missed."""
    rate = measures.delivered / measures.ended if measures.ended else 1.0
    repeated = measures.repeated_releases / measures.accepted if measures.accepted else 0.0
    missed = [
        (rate < DELIVERY_RATE_TARGET, "delivery rate", f"{rate:.3%}, target {DELIVERY_RATE_TARGET:.1%}"),
        ((measures.p50_ms or 0) > P50_TARGET_MS, "P50", f"{measures.p50_ms} ms, target {P50_TARGET_MS} ms"),
        ((measures.p99_ms or 0) > P99_TARGET_MS, "P99", f"{measures.p99_ms} ms, target {P99_TARGET_MS} ms"),
        (
            repeated >= REPEATED_RELEASE_TARGET,
            "repeated releases",
            f"{repeated:.3%}, target below {REPEATED_RELEASE_TARGET:.1%}",
        ),
    ]
    return [
        Alert(kind=AlertKind.ERROR_BUDGET, subject=target, detail=detail)
        for is_missed, target, detail in missed
        if is_missed
    ]
