"""Small plots as SVG text: bars and lines with labelled axes, without scripts and external style sheets.

Every plot has a title and a description for screen readers, and each mark its value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 34
LABELS_AT_MOST: Final = 10
WIDEST_BAR: Final = 60
_INNER_WIDTH: Final = WIDTH - LEFT - RIGHT
_INNER_HEIGHT: Final = HEIGHT - TOP - BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of a plot. A value of None leaves a gap. `style` is a class of the page's style sheet."""

    name: str
    style: str
    values: tuple[float | None, ...]


def bars(title: str, labels: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Draw one stacked bar for each label."""
    totals = [sum(one.values[place] or 0 for one in series) for place in range(len(labels))]
    high = _nice_top(max(totals, default=0))
    step = _INNER_WIDTH / max(1, len(labels))
    width = min(0.8 * step, WIDEST_BAR)
    marks = []
    for place, label in enumerate(labels):
        below = 0.0
        for one in series:
            value = one.values[place] or 0
            if value:
                y, height = _y(below + value, high), _INNER_HEIGHT * value / high
                said = f"{label}: {_number(value)} {unit}" + (f" {one.name}" if one.name else "")
                marks.append(
                    f'<rect class="{one.style}" x="{LEFT + (place + 0.5) * step - width / 2:.1f}" y="{y:.1f}"'
                    f' width="{width:.1f}" height="{height:.1f}"><title>{escape(said)}</title></rect>'
                )
            below += value
    return _plot(title, labels, high, marks, series, unit=unit)


def lines(title: str, labels: Sequence[str], series: Sequence[Series], *, unit: str, top: float | None = None) -> str:
    """Draw one line for each series, with a dot for each value and a gap where there is none."""
    values = [value for one in series for value in one.values if value is not None]
    high = top if top is not None else _nice_top(max(values, default=0))
    step = _INNER_WIDTH / max(1, len(labels))
    marks = []
    for one in series:
        points = [
            (LEFT + (place + 0.5) * step, _y(value, high), f"{labels[place]}: {_number(value)} {unit} {one.name}")
            for place, value in enumerate(one.values)
            if value is not None
        ]
        path = _path([None if value is None else _y(value, high) for value in one.values], step)
        if path:
            marks.append(f'<path class="{one.style} line" d="{path}"/>')
        marks.extend(
            f'<circle class="{one.style}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(said)}</title></circle>'
            for x, y, said in points
        )
    return _plot(title, labels, high, marks, series, unit=unit)


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
    title: str, labels: Sequence[str], high: float, marks: Sequence[str], series: Sequence[Series], *, unit: str
) -> str:
    step = _INNER_WIDTH / max(1, len(labels))
    every = max(1, -(-len(labels) // LABELS_AT_MOST))
    grid = []
    for part in range(5):
        value = high * part / 4
        y = _y(value, high)
        grid.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        grid.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    below = [
        f'<text class="tick" x="{LEFT + (place + 0.5) * step:.1f}" y="{HEIGHT - BOTTOM + 18}"'
        f' text-anchor="middle">{escape(label)}</text>'
        for place, label in enumerate(labels)
        if place % every == 0
    ]
    described = f"{title}, in {unit}, {len(labels)} values from {labels[0]} to {labels[-1]}" if labels else title
    named = [one for one in series if one.name]
    legend = "".join(f'<span><i class="{one.style}"></i>{escape(one.name)}</span>' for one in named)
    return (
        f"<figure><figcaption>{escape(title)}<small> {escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(described)}">'
        f"<desc>{escape(described)}</desc>{''.join(grid)}{''.join(below)}{''.join(marks)}</svg>"
        + (f'<p class="legend">{legend}</p>' if legend else "")
        + "</figure>"
    )


def _y(value: float, high: float) -> float:
    return TOP + _INNER_HEIGHT * (1 - min(value, high) / high)


def _nice_top(value: float) -> float:
    """Return the next of 1, 2, 4, 5, 10 ..., so that the four grid lines have round labels."""
    if value <= 0:
        return 4.0
    size = 1.0
    while size * 10 < value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in (1, 2, 4, 6, 8, 10) if size * step >= value)


def _number(value: float) -> str:
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
