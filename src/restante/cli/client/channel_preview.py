"""The work of `restante channel render`: the chunks for each platform, with their size in its unit."""

import html
import re
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from restante.policy.channel_platforms import RULES, Platform, PlatformRules, measure
from restante.runtime.channels.chunking import chunk
from restante.runtime.channels.chunking import render as render_for

_TAG: Final = re.compile("<[^>]*>")
_SEEN: Final = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Pictures of control characters: they show IRC's marks, and no text can control the terminal."""


def rendered_data(text: str, platform: Platform, limit: int | None) -> dict[str, Any]:
    rules = RULES[platform]
    ceiling = rules.chunk_limit if limit is None else min(limit, rules.chunk_limit)
    chunks = chunk(render_for(text, platform), limit=ceiling)
    return {
        "platform": platform.value,
        "format": rules.format.value,
        "limit": ceiling,
        "counting": rules.counting.value,
        "chunks": [{"text": one.text, "plain": one.plain, "size": _size(one.text, rules)} for one in chunks],
    }


def _size(text: str, rules: PlatformRules) -> int:
    """Return the size as the platform counts it. Markup is removed first if the platform does not count it."""
    counted = text if rules.markup_bytes is None else html.unescape(_TAG.sub("", text))
    return measure(counted, rules.counting)


def print_rendered(out: Console, text: str, platform: Platform, limit: int | None, *, plain: bool) -> None:
    data = rendered_data(text, platform, limit)
    count = len(data["chunks"])
    out.print(Text(f"{platform.value}: {data['format']}, {count} chunk{'' if count == 1 else 's'}", style="bold"))
    for number, one in enumerate(data["chunks"], 1):
        unit = data["counting"].replace("_", " ")
        out.print(Text(f"── {number} of {count}, {one['size']:,} {unit}", style="dim"))
        out.print(one["plain" if plain else "text"].translate(_SEEN), markup=False, soft_wrap=True)
    out.print()
