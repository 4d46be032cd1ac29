"""What rendering and cutting cost for each platform, against markdown-it's own HTML of the same document.

Ours parses with markdown-it what has no plain meaning, and reads the rest itself. The document is a page as people
write them: prose with marks and links, lists, code. The hostile ones show that no input is worse than its size.
"""

from collections.abc import Callable
from functools import partial

from markdown_it import MarkdownIt

from bench.measure import take_turns
from restante.policy.channel_platforms import Platform
from restante.runtime.channels.chunking import chunk, render

SIZE = 1_000_000
ROUNDS = 3
PLATFORMS = (
    Platform.TELEGRAM,
    Platform.DISCORD,
    Platform.SLACK,
    Platform.WHATSAPP,
    Platform.MATRIX,
    Platform.EMAIL,
    Platform.IRC,
    Platform.OTHER,
)
PARAGRAPH = (
    "The house keeps *every* letter until its addressee comes for it, and writes down **each fact** in the same"
    " transaction as the change it states; see [the page](https://example.org/books) for more about `journals`.\n\n"
)
REST = """\
- first point about it, in a line of ordinary length for a list
- second point about it, with a `word` of code

```python
def deliver(letter):
    return letter.sealed and not letter.expired
```

"""
HOSTILE = {
    "brackets": "[" * SIZE,
    "stars": "*a " * (SIZE // 3),
    "backticks": "`a" * (SIZE // 2),
    "quotes": "> " * (SIZE // 2),
    "lines": "a\n" * (SIZE // 2),
    "items": "- a\n" * (SIZE // 4),
    "cells": "|a|b|\n|-|-|\n" + "|1|2|\n" * (SIZE // 6),
    "one line": "a" * SIZE,
    "entities": "<" * SIZE,
    "flags": "\N{REGIONAL INDICATOR SYMBOL LETTER A}" * SIZE,
    "never closed": "![[" * (SIZE // 3),
    "one grapheme": "a" + "\N{COMBINING ACUTE ACCENT}" * (SIZE // 2),
}


def page() -> str:
    unit = PARAGRAPH * 4 + REST
    return unit * (SIZE // len(unit))


def ours(document: str, platform: Platform) -> int:
    chunk(render(document, platform))
    return len(document)


def only_render(document: str) -> int:
    render(document, Platform.OTHER)
    return len(document)


def bare(document: str) -> int:
    MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(document)
    return len(document)


def main() -> None:
    document = page()
    print(f"rendering and cutting, a page of {len(document) / 1e6:.2f} MB, one core; at most a second (bar: 1 MB/s)")
    contenders: dict[str, Callable[[], int]] = {platform: partial(ours, document, platform) for platform in PLATFORMS}
    contenders["no cutting"] = partial(only_render, document)
    contenders["bare markdown-it"] = partial(bare, document)
    rates = take_turns(contenders, rounds=ROUNDS)
    floor = rates["bare markdown-it"].per_second
    for name, measured in rates.items():
        rate = measured.per_second
        print(f"  {name:<18} {rate / 1e6:6.2f} MB/s   {rate / floor:5.2f} x bare markdown-it")
    print("hostile documents of 1 MB: seconds on the slowest platform")
    for name, hostile in HOSTILE.items():
        rates = take_turns({platform: partial(ours, hostile, platform) for platform in PLATFORMS}, rounds=1)
        slowest = min(rates.values(), key=lambda measured: measured.per_second)
        print(f"  {name:<18} {len(hostile) / slowest.per_second:6.2f} s   {slowest.name}")


if __name__ == "__main__":
    main()
