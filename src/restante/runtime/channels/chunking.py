"""Cut a message into chunks that a platform accepts, each complete in itself (SPEC 12.3, 12.4).

Cuts are positions in the visible text. Blanks at a cut are dropped, and in code the one line break at it. All other
visible text is in exactly one chunk. A single grapheme that is longer than a chunk is cut between code points, and the
chunk says so, because the alternatives are to lose it or never to send the message.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Final

from restante.model.errors import OutOfRange
from restante.policy.channel_platforms import MIN_LIMIT, RULES, Counting, Format, Platform
from restante.runtime.channels.gc_pause import collector_paused
from restante.runtime.channels.measured_text import MeasuredText, cost_in
from restante.runtime.channels.rendering.dialects import Dialect, Plain
from restante.runtime.channels.rendering.html_dialects import TelegramHtml, TelegramParsed, WebHtml
from restante.runtime.channels.rendering.markdown_parser import Document
from restante.runtime.channels.rendering.marker_dialects import Discord, Irc, Slack, WhatsApp
from restante.runtime.channels.rendering.run_builder import build
from restante.runtime.channels.rendering.text_runs import Role, StyledText
from restante.runtime.channels.text_breaks import best_cut, grapheme_boundary

DIALECTS: Final[dict[Format, Dialect]] = {
    Format.TELEGRAM_HTML: TelegramHtml(),
    Format.SLACK_MRKDWN: Slack(),
    Format.DISCORD_MARKDOWN: Discord(),
    Format.WHATSAPP_MARKS: WhatsApp(),
    Format.MATRIX_HTML: WebHtml(),
    Format.EMAIL_HTML: WebHtml(),
    Format.IRC: Irc(),
    Format.PLAIN: Plain(),
}

_BLANK: Final = " \t\n"
_BYTE_ORDER_MARK: Final = "\ufeff"
_ATOMS: Final = frozenset({Role.TARGET, Role.ADDRESS, Role.MARKER, Role.RULE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A message rendered for one platform, not cut yet. `visible` is its text without markup."""

    platform: Platform
    message: StyledText

    @property
    def visible(self) -> str:
        return self.message.visible

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing visible, so that nothing is sent (SPEC 12.1)."""
        return not self.visible.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One message to the platform: `text` in its format, `plain` in case it refuses the format (SPEC 12.4)."""

    text: str
    plain: str
    start: int
    end: int
    """`start` to `end` is the part of the visible text in this chunk."""
    splits_grapheme: bool = False
    """The chunk ends inside a grapheme that is longer than a whole chunk."""


def render(markdown: str, platform: Platform) -> Rendered:
    """Render Markdown for a platform. A byte order mark at the start is not part of the text."""
    with collector_paused():
        return Rendered(platform=platform, message=build(Document(markdown.removeprefix(_BYTE_ORDER_MARK))))


def chunk(rendered: Rendered, *, limit: int | None = None, at_most: int | None = None) -> list[Chunk]:
    """Return the chunks of a message in order: all, or the first `at_most`.

    `limit` replaces the platform's limit, in the platform's unit.
    """
    with collector_paused():
        return _cut(rendered, 0, len(rendered.visible), limit, at_most)


def rechunk(rendered: Rendered, refused: Chunk, *, limit: int) -> list[Chunk]:
    """Cut a chunk that the platform found too long to a smaller limit (SPEC 12.5)."""
    around = Rendered(platform=rendered.platform, message=rendered.message.around(refused.start, refused.end))
    parts = _cut(around, refused.start, refused.end, limit)
    if parts and refused.splits_grapheme:
        parts[-1] = replace(parts[-1], splits_grapheme=True)
    return parts


def _cut(rendered: Rendered, start: int, end: int, limit: int | None, at_most: int | None = None) -> list[Chunk]:
    cutter = _Cutter(rendered, limit)
    chunks: list[Chunk] = []
    position = start or cutter.after_blank(0, end)  # other starts were chosen by the previous cut
    while position < end and (at_most is None or len(chunks) < at_most):
        stop, splits = cutter.next_stop(position, end)
        made = cutter.chunk(position, stop, splits=splits)
        if made is not None:
            chunks.append(made)
        position = stop if splits else cutter.after_blank(stop, end)
    return chunks


class _Cutter:
    def __init__(self, rendered: Rendered, limit: int | None) -> None:
        rules = RULES[rendered.platform]
        ceiling = rules.chunk_limit if limit is None else limit
        if ceiling < MIN_LIMIT:
            raise OutOfRange("limit of a chunk", ceiling, low=MIN_LIMIT, high=rules.chunk_limit)
        self.message = message = rendered.message
        self.one_line = rules.one_line
        cost = cost_in(rules.counting, message)
        self.plain = MeasuredText(message, DIALECTS[Format.PLAIN], cost=cost, limit=ceiling)
        self.measured = [self.plain]
        dialect = DIALECTS[rules.format]
        if rules.markup_bytes is not None:
            self.measured.append(MeasuredText(message, TelegramParsed(), cost=cost, limit=ceiling))
            self.measured.append(
                MeasuredText(message, dialect, cost=cost_in(Counting.UTF8_BYTES, message), limit=rules.markup_bytes)
            )
        elif rules.format is not Format.PLAIN:
            self.measured.append(MeasuredText(message, dialect, cost=cost, limit=ceiling))
        self.main = self.measured[-1]
        self.atom_limit = ceiling // 2
        self.gaps = [start for start, run in zip(message.starts, message.runs, strict=True) if run.role is Role.GAP]

    def next_stop(self, start: int, end: int) -> tuple[int, bool]:
        """Return where the chunk that begins at `start` ends, and whether that is inside a grapheme."""
        visible = self.message.visible
        if self.one_line:
            line_end = visible.find("\n", start + 1, start + self.main.limit + 1)
            end = line_end if line_end >= 0 else end
        reach = end
        for candidate in self.measured:
            reach = candidate.end_of_fit(start, reach)
        reach = max(reach, start + 1)
        if reach == end:
            return end, False
        reach = self._before_atom(start, reach)
        if reach == start + 1 or grapheme_boundary(visible, start, reach) == start:
            return reach, grapheme_boundary(visible, start, reach) != reach
        block = self._last_gap(reach)
        stop = self._before_atom(start, best_cut(visible, start, reach, block=block if block > start else None))
        return self._without_blank(start, stop), False

    def _last_gap(self, position: int) -> int:
        at = bisect_right(self.gaps, position) - 1
        return self.gaps[at] if at >= 0 else -1

    def _before_atom(self, start: int, position: int) -> int:
        """Move a cut in front of an address or the like, unless that is too long for a chunk."""
        index, offset = self.main.place(position)
        run = self.message.runs[index]
        begin = self.message.starts[index]
        if offset and run.role in _ATOMS and len(run.text) <= self.atom_limit and begin > start:
            return begin
        return position

    def _without_blank(self, start: int, stop: int) -> int:
        visible = self.message.visible
        trimmed = stop
        while trimmed > start + 1 and visible[trimmed - 1] in _BLANK and not self._in_code(trimmed - 1):
            trimmed -= 1
        return trimmed

    def after_blank(self, position: int, end: int) -> int:
        """Return the first position from here on that a chunk should begin with."""
        visible = self.message.visible
        if not self.one_line and position < end and visible[position] == "\n" and self._in_code(position):
            return position + 1
        place = position
        while place < end and visible[place] in _BLANK:
            if self._in_code(place) and not (self.one_line and visible[place] == "\n"):
                break
            place += 1
        if position < place < end and grapheme_boundary(visible, place - 1, place) != place:
            return place - 1
        return place

    def _in_code(self, position: int) -> bool:
        return self.message.runs[self.main.place(position)[0]].role is Role.CODE

    def chunk(self, start: int, end: int, *, splits: bool) -> Chunk | None:
        """Return the chunk, or None if nothing in it is visible."""
        if not self.message.visible[start:end].strip():
            return None
        shown = self.main.shows(start, end)
        text = self.main.write(start, end) if shown else self.main.write_bare(start, end)
        plain = text if self.main is self.plain else self.plain.write(start, end)
        return Chunk(text=text, plain=plain, start=start, end=end, splits_grapheme=splits)
