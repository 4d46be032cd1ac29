"""Small plots as SVG text: bars, lines and rows of bars with labelled axes, without scripts and style sheets of others.

Every plot has a title and a description for screen readers, and each mark its value. The plots are narrow, so that
their letters can be read on a phone; a wide page shows two beside each other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 440
HEIGHT: Final = 220
LEFT, RIGHT, TOP, BOTTOM = 54, 10, 12, 30
LABELS_AT_MOST: Final = 6
WIDEST_BAR: Final = 48
DOTS_AT_MOST: Final = 40
ROW_HEIGHT: Final = 36
_INNER_WIDTH: Final = WIDTH - LEFT - RIGHT
_INNER_HEIGHT: Final = HEIGHT - TOP - BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of a plot. A value of None leaves a gap. `style` is a class of the page's style sheet."""

    name: str
    style: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A dashed line across a plot, with its name at the right end."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The vertical axis from `low` to `high`; logarithmic if `is_log`."""

    low: float
    high: float
    is_log: bool = False

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return TOP + _INNER_HEIGHT * (1 - share)

    def ticks(self) -> list[float]:
        if self.is_log:
            decades = round(math.log10(self.high / self.low))
            return [self.low * 10**power for power in range(0, decades + 1, max(1, -(-decades // 5)))]
        return [self.low + (self.high - self.low) * part / 4 for part in range(5)]


def number(value: float) -> str:
    """Format a value for an axis or a title."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.5g}"


def bars(title: str, labels: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Draw one stacked bar for each label."""
    totals = [sum(one.values[place] or 0 for one in series) for place in range(len(labels))]
    scale = Scale(low=0, high=_nice_top(max(totals, default=0)))
    step = _INNER_WIDTH / max(1, len(labels))
    width = min(0.8 * step, WIDEST_BAR)
    marks = []
    for place, label in enumerate(labels):
        below = 0.0
        for one in series:
            value = one.values[place] or 0
            if value:
                y, height = scale.y(below + value), _INNER_HEIGHT * value / scale.high
                said = f"{label}: {number(value)} {unit}" + (f" {one.name}" if one.name else "")
                marks.append(
                    f'<rect class="{one.style}" x="{LEFT + (place + 0.5) * step - width / 2:.1f}" y="{y:.1f}"'
                    f' width="{width:.1f}" height="{height:.1f}"><title>{escape(said)}</title></rect>'
                )
            below += value
    return _plot(title, labels, scale, marks, series, unit=unit)


def lines(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str,
    scale: Scale | None = None,
    targets: Sequence[Target] = (),
    show: Callable[[float], str] = number,
) -> str:
    """Draw one line for each series, with a gap where there is no value. Few values get a dot each."""
    values = [value for one in series for value in one.values if value is not None]
    scale = scale or Scale(low=0, high=_nice_top(max(values, default=0)))
    step = _INNER_WIDTH / max(1, len(labels))
    marks: list[str] = []
    for one in series:
        heights = [None if value is None else scale.y(value) for value in one.values]
        marks.append(f'<path class="{one.style} line" d="{_path(heights, step)}"/>')
        alone = len(labels) <= DOTS_AT_MOST
        marks.extend(
            f'<circle class="{one.style}" cx="{LEFT + (place + 0.5) * step:.1f}" cy="{height:.1f}" r="2.5"/>'
            for place, height in enumerate(heights)
            if height is not None and (alone or _is_alone(heights, place))
        )
    marks.extend(_target(target, scale) for target in targets)
    marks.extend(_hover(labels, series, step, show))
    return _plot(title, labels, scale, marks, series, unit=unit, show=show)


def log_scale(values: Sequence[float | None], *, low: float, high: float) -> Scale:
    """Return decades that contain all values, and at least `low` to `high`."""
    known = [value for value in values if value]
    bottom, top = min([low, *known]), max([high, *known])
    return Scale(low=10.0 ** math.floor(math.log10(bottom)), high=10.0 ** math.ceil(math.log10(top)), is_log=True)


def rows_of_bars(title: str, rows: Sequence[tuple[str, float]], *, unit: str, style: str) -> str:
    """Draw one horizontal bar below each name."""
    most = max((value for _, value in rows), default=0) or 1
    marks = []
    for place, (name, value) in enumerate(rows):
        top = place * ROW_HEIGHT
        marks.append(f'<text class="name" x="0" y="{top + 14}">{escape(name)}</text>')
        marks.append(f'<text class="name" x="{WIDTH}" y="{top + 14}" text-anchor="end">{number(value)}</text>')
        marks.append(f'<rect class="track" x="0" y="{top + 20}" width="{WIDTH}" height="8" rx="2"/>')
        width = max(2.0, WIDTH * value / most)
        said = f"{name}: {number(value)} {unit}"
        marks.append(
            f'<rect class="{style}" x="0" y="{top + 20}" width="{width:.1f}" height="8" rx="2">'
            f"<title>{escape(said)}</title></rect>"
        )
    return figure(title, "".join(marks), height=len(rows) * ROW_HEIGHT, unit=unit, described=f"{len(rows)} rows")


def figure(title: str, drawn: str, *, height: float, unit: str, described: str, below: str = "") -> str:
    """Return a figure with its caption around what is drawn."""
    label = escape(f"{title}, in {unit}: {described}")
    return (
        f"<figure><figcaption>{escape(title)}<small> {escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{label}"><desc>{label}</desc>{drawn}</svg>'
        f"{below}</figure>"
    )


def _target(target: Target, scale: Scale) -> str:
    y = scale.y(target.value)
    return (
        f'<path class="target" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        f'<text class="tick over" x="{WIDTH - RIGHT}" y="{y - 4:.1f}" text-anchor="end">{escape(target.name)}</text>'
    )


def _hover(labels: Sequence[str], series: Sequence[Series], step: float, show: Callable[[float], str]) -> list[str]:
    """Return invisible columns with the values of each place as their titles."""
    columns = []
    for place, label in enumerate(labels):
        known = [f"{one.name} {show(value)}" for one in series if (value := one.values[place]) is not None]
        if known:
            said = escape(f"{label}: {', '.join(known)}")
            columns.append(
                f'<rect class="hover" x="{LEFT + place * step:.1f}" y="{TOP}" width="{step:.1f}"'
                f' height="{_INNER_HEIGHT}"><title>{said}</title></rect>'
            )
    return columns


def _is_alone(heights: Sequence[float | None], place: int) -> bool:
    around = (heights[at] for at in (place - 1, place + 1) if 0 <= at < len(heights))
    return all(height is None for height in around)


def _path(heights: Sequence[float | None], step: float) -> str:
    parts, pen_is_down = [], False
    for place, height in enumerate(heights):
        if height is None:
            pen_is_down = False
            continue
        parts.append(f"{'L' if pen_is_down else 'M'}{LEFT + (place + 0.5) * step:.1f} {height:.1f}")
        pen_is_down = True
    return " ".join(parts)


def _plot(
    title: str,
    labels: Sequence[str],
    scale: Scale,
    marks: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str,
    show: Callable[[float], str] = number,
) -> str:
    step = _INNER_WIDTH / max(1, len(labels))
    every = max(1, -(-len(labels) // LABELS_AT_MOST))
    grid = []
    for value in scale.ticks():
        y = scale.y(value)
        grid.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        grid.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{show(value)}</text>')
    below = [
        f'<text class="tick" x="{LEFT + (place + 0.5) * step:.1f}" y="{HEIGHT - BOTTOM + 18}"'
        f' text-anchor="middle">{escape(label.partition(" ")[0] if len(labels) > LABELS_AT_MOST else label)}</text>'
        for place, label in enumerate(labels)
        if place % every == 0
    ]
    described = f"{len(labels)} values from {labels[0]} to {labels[-1]}" if labels else "no values"
    legend = "".join(f'<span><i class="{one.style}"></i>{escape(one.name)}</span>' for one in series if one.name)
    return figure(
        title,
        "".join((*grid, *below, *marks)),
        height=HEIGHT,
        unit=unit,
        described=described,
        below=f'<p class="legend">{legend}</p>' if legend else "",
    )


def _nice_top(value: float) -> float:
    """Return the next of 1, 2, 4, 6, 8, 10 ..., so that the four grid lines have round labels."""
    if value <= 0:
        return 4.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * step for step in (1, 2, 4, 6, 8, 10, 20) if size * step >= value)
