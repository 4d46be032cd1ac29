"""Pieces written in one dialect, with the exact cost of any part of them.

A track holds what each piece and each step between two pieces becomes, and running totals of what that costs. The cost
of a part from anywhere to anywhere is then a subtraction, and what is written is balanced because every wrap that
is open at a cut is closed there and opened again.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Final

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.rendering.dialects import Dialect, code_around
from restante.runtime.channels.rendering.text_runs import INLINE_KINDS, Pieces, Role, Stack, Wrap, WrapKind

MOST_FOR_WRAPS: Final = 3
"""Wraps may take a third of a chunk at most; those that would take more are left out."""

SURELY_ENOUGH: Final = 64
"""No wrap's marks are longer than this and its argument written twice, each character as an entity."""

Cost = Callable[[str], int]


def cost_in(counting: Counting, message: Pieces) -> Cost:
    """How long a text of this message is. Dialects add no character that takes two UTF-16 units."""
    if counting is Counting.UTF8_BYTES:
        return _utf8_length
    is_length = counting is Counting.CODE_POINTS or measure(message.visible, counting) == len(message.visible)
    return len if is_length else partial(measure, counting=counting)


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class Track:
    """One message in one dialect. `limit` is in the unit of `cost`."""

    def __init__(self, message: Pieces, dialect: Dialect, *, cost: Cost, limit: int) -> None:
        self.message = message
        self.dialect = dialect
        self.cost = cost
        self.limit = limit
        self._silent = frozenset(kind for kind in WrapKind if _is_silent(dialect, kind))
        self._has_joints = type(dialect).joint is not Dialect.joint
        self._kept: dict[Stack, Stack] = {}
        self._closing_costs: dict[Stack, int] = {}
        self._leads: dict[Stack, str] = {}
        self._steps: dict[tuple[Stack, Stack], tuple[str, str, bool, bool]] = {}
        self.stacks: list[Stack] = []
        self.parts: list[str] = []
        """For each piece the step to it, then the piece itself."""
        self.totals = [0]
        self._write_all()

    def _write_all(self) -> None:
        cost, limit, hidden, parts, totals = self.cost, self.limit, self.dialect.hidden, self.parts, self.totals
        total = 0
        before: Stack = ()
        for index, (text, stack, role) in enumerate(self.message.pieces):
            kept = self._kept.get(stack)
            if kept is None:
                kept = self._expressible(stack)
            self.stacks.append(kept)
            step = "" if kept == before else self._step(index, before, kept)
            if len(text) > limit:  # never written whole
                written, price = "", limit + 1
            elif role in hidden:
                # A hidden address is paid for, since a chunk that holds nothing else must show it.
                written, price = "", cost(self._bare(text, role))
            else:
                written = self._written(text, kept, role)
                price = cost(written)
            total += price + cost(step) if step else price
            parts += (step, written)
            totals.append(total)
            before = kept

    def _expressible(self, stack: Stack) -> Stack:
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

    def _bare(self, text: str, role: Role) -> str:
        return self.dialect.text(text, role, code=None) if role is Role.TARGET else ""

    def lead(self, stack: Stack) -> str:
        known = self._leads.get(stack)
        if known is None:
            known = self._leads[stack] = "".join(self.dialect.lead(wrap) for wrap in stack)
        return known

    def part(self, index: int, start: int, end: int) -> str:
        """What becomes of a part of a piece."""
        text, _, role = self.message.pieces[index]
        return "" if role in self.dialect.hidden else self._written(text[start:end], self.stacks[index], role)

    def _written(self, text: str, stack: Stack, role: Role) -> str:
        written = self.dialect.text(text, role, code=code_around(stack) if role is Role.CODE else None)
        return written.replace("\n", "\n" + self.lead(stack)) if "\n" in written else written

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
            opened = wrap
            if wrap.kind is WrapKind.ORDERED_LIST and following is not None and following.kind is WrapKind.ITEM:
                opened = Wrap(kind=WrapKind.ORDERED_LIST, number=following.number)
            written.append(self._with_lead(self.dialect.opening(opened), stack[:depth]))
        return "".join(written)

    def closed(self, stack: Stack, depth: int = 0) -> str:
        """What closes the wraps of a stack from the innermost out, down to `depth`."""
        places = range(len(stack) - 1, depth - 1, -1)
        return "".join(self._with_lead(self.dialect.closing(stack[at]), stack[:at]) for at in places)

    def _closing_cost(self, index: int) -> int:
        stack = self.stacks[index]
        known = self._closing_costs.get(stack)
        if known is None:
            known = self._closing_costs[stack] = self.cost(self.closed(stack))
        return known

    def _with_lead(self, written: str, outer: Stack) -> str:
        return written.replace("\n", "\n" + self.lead(outer)) if "\n" in written else written

    def _step(self, index: int, before: Stack, after: Stack) -> str:
        """What stands between a piece and the one before it."""
        known = self._steps.get((before, after))
        if known is None:
            known = self._steps[before, after] = self._change(before, after)
        closing, opening, closes, opens = known
        if not (closes or opens) or not index:
            return closing + opening
        pieces = self.message.pieces
        last, first = pieces[index - 1].text[-1:], pieces[index].text[:1]
        return closing + self.dialect.joint(closes=closes, opens=opens, before=last, after=first) + opening

    def _change(self, before: Stack, after: Stack) -> tuple[str, str, bool, bool]:
        """What closes one stack, what opens the other, and whether marks that may need a joint end and begin there."""
        depth = 0
        for ours, theirs in zip(before, after, strict=False):
            if ours is not theirs:
                break
            depth += 1
        opening = "".join(
            self._with_lead(self.dialect.opening(after[at]), after[:at]) for at in range(depth, len(after))
        )
        # An inline wrap is innermost, so the last of each tells.
        closes = self._has_joints and depth < len(before) and before[-1].kind in INLINE_KINDS
        opens = self._has_joints and depth < len(after) and after[-1].kind in INLINE_KINDS
        return self.closed(before, depth), opening, closes, opens

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
            if before + self.totals[middle + 1] + self._closing_cost(middle) <= self.limit:
                low, step = middle + 1, step * 2
            else:
                high, step = middle, len(pieces)
        if low == len(pieces) or starts[low] >= end:
            return end
        begin = offset if low == first else 0
        spent = opened if low == first else before + self.totals[low] + self.cost(self.parts[2 * low])
        room = self.limit - spent - self._closing_cost(low)
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
        begin = self.part(first, offset, len(self.message.pieces[first].text))
        between = self.parts[2 * first + 2 : 2 * last + 1]
        return "".join((opened, begin, *between, self.part(last, 0, stop), closed))

    def shows(self, start: int, end: int) -> bool:
        """Whether anything of the part would be seen."""
        if not self.dialect.hidden:
            return not self.message.visible[start:end].isspace()
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
