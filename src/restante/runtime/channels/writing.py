"""Pieces written in one dialect, with the exact cost of any part of them.

A track holds what each piece and each step between two pieces becomes, and running totals of what that costs. The cost
of a part from anywhere to anywhere is then a subtraction, and what is written is balanced because every wrap that
is open at a cut is closed there and opened again.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.rendering.dialects import Dialect, code_around
from restante.runtime.channels.rendering.pieces import INLINE_KINDS, Pieces, Role, Stack, Wrap, WrapKind

MOST_FOR_WRAPS: Final = 3
"""Wraps may take a third of a chunk at most; those that would take more are left out."""

SURELY_ENOUGH: Final = 64
"""No wrap's marks are longer than this and its argument written twice, each character as an entity."""

Cost = Callable[[str], int]


def cost_in(counting: Counting) -> Cost:
    return lambda written: measure(written, counting)


class Track:
    """One message in one dialect. `limit` is in the unit of `cost`."""

    def __init__(self, message: Pieces, dialect: Dialect, *, cost: Cost, limit: int) -> None:
        self.message = message
        self.dialect = dialect
        self.cost = cost
        self.limit = limit
        self._silent = frozenset(kind for kind in WrapKind if _is_silent(dialect, kind))
        self._kept: dict[Stack, Stack] = {}
        self._closed: dict[Stack, str] = {}
        self._leads: dict[Stack, str] = {}
        self.stacks = [self._expressible(piece.stack) for piece in message.pieces]
        # A piece longer than the limit is never written whole.
        self.written = [
            self.part(index, 0, len(piece.text)) if len(piece.text) <= limit else ""
            for index, piece in enumerate(message.pieces)
        ]
        self.steps = [self._step(index) for index in range(len(message.pieces))]
        self.totals = self._running_totals()

    def _expressible(self, stack: Stack) -> Stack:
        known = self._kept.get(stack)
        if known is None:
            heard = tuple(wrap for wrap in self.dialect.kept(stack) if wrap.kind not in self._silent)
            known = self._kept[stack] = self._affordable(heard)
        return known

    def _affordable(self, stack: Stack) -> Stack:
        room = self.limit // MOST_FOR_WRAPS
        if sum(SURELY_ENOUGH + 12 * len(wrap.argument) for wrap in stack) <= room:
            return stack
        kept = []
        for wrap in stack:
            price = self.cost(self.dialect.opening(wrap)) + self.cost(self.dialect.closing(wrap))
            if price <= room:
                kept.append(wrap)
                room -= price
        return tuple(kept)

    def _running_totals(self) -> list[int]:
        totals = [0]
        hidden = self.dialect.hidden
        for piece, step, written in zip(self.message.pieces, self.steps, self.written, strict=True):
            # A hidden address is paid for, since a chunk that holds nothing else must show it.
            shown = written if piece.role not in hidden else self._bare(piece.text, piece.role)
            price = self.cost(shown) if len(piece.text) <= self.limit else self.limit + 1
            totals.append(totals[-1] + self.cost(step) + price)
        return totals

    def _bare(self, text: str, role: Role) -> str:
        return self.dialect.text(text, role, code=None) if role is Role.TARGET else ""

    def lead(self, stack: Stack) -> str:
        known = self._leads.get(stack)
        if known is None:
            known = self._leads[stack] = "".join(self.dialect.lead(wrap) for wrap in stack)
        return known

    def part(self, index: int, start: int, end: int) -> str:
        """What becomes of a part of a piece."""
        piece = self.message.pieces[index]
        if piece.role in self.dialect.hidden:
            return ""
        stack = self.stacks[index]
        code = code_around(stack) if piece.role is Role.CODE else None
        text = self.dialect.text(piece.text[start:end], piece.role, code=code)
        return text.replace("\n", "\n" + self.lead(stack)) if "\n" in text else text

    def _part_cost(self, index: int, start: int, end: int) -> int:
        piece = self.message.pieces[index]
        if piece.role in self.dialect.hidden:
            return self.cost(self._bare(piece.text[start:end], piece.role))
        return self.cost(self.part(index, start, end))

    def opened(self, stack: Stack) -> str:
        """The wraps opened at the beginning of a chunk; an ordered list goes on with its number."""
        written = []
        for depth, wrap in enumerate(stack):
            following = stack[depth + 1] if depth + 1 < len(stack) else None
            if wrap.kind is WrapKind.ORDERED_LIST and following is not None and following.kind is WrapKind.ITEM:
                wrap = Wrap(kind=WrapKind.ORDERED_LIST, number=following.number)  # noqa: PLW2901
            written.append(self._with_lead(self.dialect.opening(wrap), stack[:depth]))
        return "".join(written)

    def closed(self, stack: Stack, depth: int = 0) -> str:
        """What closes the wraps of a stack from the innermost out, down to `depth`."""
        if depth == 0 and stack in self._closed:
            return self._closed[stack]
        places = range(len(stack) - 1, depth - 1, -1)
        written = "".join(self._with_lead(self.dialect.closing(stack[at]), stack[:at]) for at in places)
        if depth == 0:
            self._closed[stack] = written
        return written

    def _with_lead(self, written: str, outer: Stack) -> str:
        return written.replace("\n", "\n" + self.lead(outer)) if "\n" in written else written

    def _step(self, index: int) -> str:
        """What stands between a piece and the one before it."""
        after = self.stacks[index]
        before = self.stacks[index - 1] if index else ()
        if before == after:
            return ""
        depth = 0
        for ours, theirs in zip(before, after, strict=False):
            if ours is not theirs:
                break
            depth += 1
        written = [self.closed(before, depth)] if depth < len(before) else []
        written.append(self._joint(index, before[depth:], after[depth:]))
        opened = range(depth, len(after))
        written.extend(self._with_lead(self.dialect.opening(after[at]), after[:at]) for at in opened)
        return "".join(written)

    def _joint(self, index: int, ended: Stack, begun: Stack) -> str:
        # An inline wrap is innermost, so the last of each tells.
        closes = bool(ended) and ended[-1].kind in INLINE_KINDS
        opens = bool(begun) and begun[-1].kind in INLINE_KINDS
        if not (closes or opens) or index == 0:
            return ""
        pieces = self.message.pieces
        before, after = pieces[index - 1].text[-1:], pieces[index].text[:1]
        return self.dialect.joint(closes=closes, opens=opens, before=before, after=after)

    def place(self, position: int) -> tuple[int, int]:
        """The piece in which a position lies, and how far inside."""
        index = bisect_right(self.message.starts, position) - 1
        return index, position - self.message.starts[index]

    def end_of_fit(self, start: int, end: int) -> int:
        """The furthest position, at most `end`, to which a chunk that begins at `start` may reach."""
        first, offset = self.place(start)
        pieces, starts = self.message.pieces, self.message.starts
        opened = self.cost(self.opened(self.stacks[first]))
        before = opened + self._cost_of_rest(first, offset) - self.totals[first + 1]
        low, high, step = first, self.place(end - 1)[0] + 1, 1
        while low < high:  # by growing steps, then by halves: a chunk is short, a document may be long
            middle = min(low + step - 1, (low + high) // 2)
            if before + self.totals[middle + 1] + self.cost(self.closed(self.stacks[middle])) <= self.limit:
                low, step = middle + 1, step * 2
            else:
                high, step = middle, len(pieces)
        if low == len(pieces) or starts[low] >= end:
            return end
        begin = offset if low == first else 0
        spent = opened if low == first else before + self.totals[low] + self.cost(self.steps[low])
        room = self.limit - spent - self.cost(self.closed(self.stacks[low]))
        return min(end, starts[low] + begin + self._fitting(low, begin, room))

    def _cost_of_rest(self, index: int, offset: int) -> int:
        """The cost of the rest of a piece, or more than any limit where it is surely too long."""
        end = len(self.message.pieces[index].text)
        return self.limit + 1 if end - offset > self.limit else self._part_cost(index, offset, end)

    def _fitting(self, index: int, begin: int, room: int) -> int:
        """How many characters of a piece fit; every one costs at least one unit. Guessed from the price so far."""
        low, low_price = 0, 0
        high = max(0, min(room, len(self.message.pieces[index].text) - begin))
        high_price = self._part_cost(index, begin, begin + high)
        if high_price <= room:
            return high
        while high - low > 1:
            guess = low + (high - low) * (room - low_price) // (high_price - low_price)
            guess = min(max(guess, low + 1), high - 1)
            price = self._part_cost(index, begin, begin + guess)
            if price <= room:
                low, low_price = guess, price
            else:
                high, high_price = guess, price
        return low

    def write(self, start: int, end: int) -> str:
        """The part from `start` to `end`, balanced."""
        first, offset = self.place(start)
        last, stop = self.place(end - 1)
        stop += 1
        opened, closed = self.opened(self.stacks[first]), self.closed(self.stacks[last])
        if first == last:
            return opened + self.part(first, offset, stop) + closed
        written = [opened, self.part(first, offset, len(self.message.pieces[first].text))]
        for index in range(first + 1, last):
            written += (self.steps[index], self.written[index])
        written += (self.steps[last], self.part(last, 0, stop), closed)
        return "".join(written)

    def shows(self, start: int, end: int) -> bool:
        """Whether anything of the part would be seen."""
        first, last = self.place(start)[0], self.place(end - 1)[0]
        for index in range(first, last + 1):
            piece, begin = self.message.pieces[index], self.message.starts[index]
            if piece.role not in self.dialect.hidden:
                text = piece.text[max(0, start - begin) : end - begin]
                if text and not text.isspace():
                    return True
        return False

    def write_bare(self, start: int, end: int) -> str:
        """The part as text alone, hidden pieces and all."""
        return self.dialect.text(self.message.visible[start:end], Role.TARGET, code=None)


def _is_silent(dialect: Dialect, kind: WrapKind) -> bool:
    """Whether wraps of this kind leave no trace in the dialect; most steps between pieces then cost nothing."""
    wrap = Wrap(kind=kind, argument="x", number=1)
    return not (dialect.opening(wrap) or dialect.closing(wrap) or dialect.lead(wrap))
