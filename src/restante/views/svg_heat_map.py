"""A heat map of hours as SVG: a row for each day, a column for each hour, a colour class for each range of values."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from restante.views.svg_plots import WIDTH, figure, number

HOUR_MS: Final = 3_600_000
HOURS: Final = 24
LEFT: Final = 66
TOP: Final = 18
CELL_HEIGHT: Final = 13
_CELL_WIDTH: Final = (WIDTH - LEFT) / HOURS


def heat_map(
    title: str, values: Mapping[int, float], *, edges: Sequence[float], names: Sequence[str], style: str, unit: str
) -> str:
    """Draw `values` by the beginning of their hour.

    A value up to edges[n] has the class `style` + n and the name names[n] in the legend; a higher one the last class.
    """
    days = sorted({at_ms // (HOURS * HOUR_MS) for at_ms in values}, reverse=True)
    drawn = [
        f'<text class="tick" x="{LEFT + (hour + 0.5) * _CELL_WIDTH:.1f}" y="12" text-anchor="middle">{hour:02}</text>'
        for hour in range(0, HOURS, 3)
    ]
    for row, day in enumerate(days):
        y = TOP + row * CELL_HEIGHT
        date = datetime.fromtimestamp(day * HOURS * HOUR_MS / 1_000, UTC)
        drawn.append(f'<text class="tick" x="0" y="{y + 10}">{date:%m-%d %a}</text>')
        for hour in range(HOURS):
            value = values.get((day * HOURS + hour) * HOUR_MS)
            if value is None:
                continue
            said = escape(f"{date:%Y-%m-%d} {hour:02}:00: {number(value)} {unit}")
            drawn.append(
                f'<rect class="{style}{bisect_left(edges, value)}" x="{LEFT + hour * _CELL_WIDTH:.1f}" y="{y}"'
                f' width="{_CELL_WIDTH - 1:.1f}" height="{CELL_HEIGHT - 1}"><title>{said}</title></rect>'
            )
    legend = "".join(f'<span><i class="{style}{place}"></i>{escape(name)}</span>' for place, name in enumerate(names))
    return figure(
        title,
        "".join(drawn),
        height=TOP + len(days) * CELL_HEIGHT,
        unit=unit,
        described=f"a row for each of {len(days)} days, the latest first, a column for each hour (UTC)",
        below=f'<p class="legend">{legend}</p>',
    )
