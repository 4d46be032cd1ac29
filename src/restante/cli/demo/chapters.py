"""What a chapter of the demo reports, and what all chapters share."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restante.cli.demo.network import DemoNetwork
from restante.cli.demo.people import Person


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A title, lines for people, figures for programs, and whether everything was as it must be."""

    title: str
    lines: tuple[str, ...]
    is_good: bool
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where the demo plays. `on_progress` gets what happens now, for a person who waits."""

    home: Path
    segments: Path
    network: DemoNetwork
    people: dict[str, Person]
    messages: int
    seed: int
    on_progress: Callable[[str], None]


def as_sent(*, is_good: bool) -> str:
    return "each once, in the order sent" if is_good else "NOT as they were sent"


def shown_latency(latencies_ms: Sequence[float]) -> str:
    half, most = (shown_ms(percentile(latencies_ms, percent)) for percent in (50, 99))
    return f"half within {half}, 99 % within {most}"


def shown_ms(ms: float) -> str:
    return f"{ms:,.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def percentile(values: Sequence[float], percent: int) -> float:
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def percentiles(latencies_ms: Sequence[float]) -> dict[str, float]:
    return {f"p{each}": round(percentile(latencies_ms, each), 1) for each in (50, 99)}
