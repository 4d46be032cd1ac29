"""Writes the page about the formats from what the renderer does; run as a script, it writes the file."""

from pathlib import Path

from restante.policy.channel_platforms import RULES, Counting, Platform
from restante.runtime.channels.chunking import chunk, render

FORMATS_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "channels-formats.md"

UNITS = {
    Counting.UTF16_UNITS: "UTF-16 units",
    Counting.UTF8_BYTES: "bytes (UTF-8)",
    Counting.CODE_POINTS: "code points",
}
CONTROL_CODES = str.maketrans(
    {"\x02": "\u2402", "\x1d": "\u241d", "\x1e": "\u241e", "\x11": "\u2411", "\u200b": "\u2423"}
)

EXAMPLE = """\
# Two *letters* & a <tag>

They **waited** ~~for weeks~~ at [the office](https://example.org/a_b). @everyone, see `x*y`.

1. sealed
2. signed
   - twice

> kept until
> somebody comes

```python
print("<here>")
```

| day | letters |
|---|---|
| Monday | 7 |
"""

HEAD = """\
# Channel formats

Written by `make docs` from the renderer; a test keeps it current. Reasons: [decision
0017](../decisions/0017-rendering-through-pieces.md).

## Limits (SPEC 12.3)

| platform | format | limit | counted in | a chunk may use |
|---|---|---|---|---|
"""

RULES_TEXT = """
- Telegram counts the text that is left after it has parsed tags and entities, and so do we. In addition, the text with
  tags stays within 16,384 bytes.
- For all others, marks count. If a platform does not document how it counts, we use the larger of the likely counts.
- IRC: 172 bytes of a line are reserved for the server's prefix and the line end, and each line is one message.
- The plain text of each chunk fits the same limit. It is sent if the platform refuses the format.

## Constructs

| Markdown | Telegram | Discord | Slack, WhatsApp | Matrix, e-mail | IRC | plain |
|---|---|---|---|---|---|---|
| bold, italic, strike, code | tags | marks | marks | tags | control codes | text |
| link, image | link | link | Slack: link; WhatsApp: label (address) | link | label (address) | label (address) |
| heading | bold | `#` up to three | bold | tag | bold | text |
| list | text | list | text | tags | text | text |
| quote | one level | `>` | `>` | tags | `>` | `>` |
| fence | with language | with language | without | with language | text | text |
| table | aligned, fixed width | the same | the same | the same | aligned | aligned |
| HTML | text | text | text | text | text | text |

- Only `http`, `https`, `mailto` and `tel` become links; any other address is shown as text after its label. Of an
  image inside a link only the description remains.
- A soft break is a line break. Control characters become U+FFFD; a line end written as an entity is a space.
- Discord: `@everyone` and `@here` get a zero-width space after the `@`; a backtick in a code span becomes `\u02cb` (in
  Slack and WhatsApp, too), and three in a fence are kept apart by zero-width spaces.
- Slack and WhatsApp have no escape: a literal `*`, `_`, `~` or backtick that could format is set apart by zero-width
  spaces. This is a best effort, since neither says how it parses.
- Cuts: between blocks, else lines, else sentences in the second half of what fits; else between words, else
  graphemes. Blanks at a cut are dropped (in code only one line break). Tags, marks and fences are closed and opened
  again; a cut list item shows its bullet or number again in HTML. A grapheme longer than a whole chunk is cut
  between code points, and `Chunk.splits_grapheme` says so.
- Work is bounded: beyond 60,000 lines a document is shown as written, beyond 20,000 bars it has
  no tables, beyond 50,000 possible marks paragraphs have no marks, beyond 20 levels quotes and lists are text.

## An example

"""


def formats_page() -> str:
    rows = "".join(
        f"| {platform} | {rules.format} | {rules.limit:,} | {UNITS[rules.counting]} | {rules.chunk_limit:,} |\n"
        for platform, rules in RULES.items()
    )
    drawn = "Control codes are drawn as \u2402 and the like, a zero-width space as \u2423."
    shown = [f"````markdown\n{EXAMPLE}````\n\n{drawn}\n"]
    for platform in Platform:
        if platform in (Platform.SIGNAL, Platform.LINE, Platform.EMAIL):
            continue  # the same as plain text and Matrix
        texts = "\n".join(each.text for each in chunk(render(EXAMPLE, platform)))
        shown.append(f"### {platform}\n\n````text\n{texts.translate(CONTROL_CODES)}\n````\n")
    return HEAD + rows + RULES_TEXT + "\n".join(shown)


if __name__ == "__main__":
    FORMATS_PAGE.write_text(formats_page(), "utf-8")
