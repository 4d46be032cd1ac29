"""Text runs written in one dialect, with the exact cost of any part.

It stores what each run and each step between two runs becomes, and running totals of the costs. So the cost of any part
is a subtraction. The output is balanced, because every element that is open at a cut is closed there and opened again.
"""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Final

from restante.policy.channel_platforms import Counting, measure
from restante.runtime.channels.rendering.dialects import Dialect, code_around
from restante.runtime.channels.rendering.text_runs import INLINE_KINDS, Element, ElementKind, Role, Stack, StyledText

MAX_ELEMENT_SHARE: Final = 3
"""The marks of elements may take a third of a chunk. Elements that would take more are left out."""

MAX_MARK_CHARS: Final = 64
"""The marks of an element are shorter than this plus twice its argument, each character as an entity."""

Cost = Callable[[str], int]


def cost_in(counting: Counting, message: StyledText) -> Cost:
    """Return a function that measures texts of this message. Dialects add no character that takes two UTF-16 units."""
    if counting is Counting.UTF8_BYTES:
        return _utf8_length
    is_length = counting is Counting.CODE_POINTS or measure(message.visible, counting) == len(message.visible)
    return len if is_length else partial(measure, counting=counting)


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


class MeasuredText:
    """One message in one dialect. `limit` is in the unit of `cost`."""

    def __init__(self, message: StyledText, dialect: Dialect, *, cost: Cost, limit: int) -> None:
        self.message = message
        self.dialect = dialect
        self.cost = cost
        self.limit = limit
        self._silent = frozenset(kind for kind in ElementKind if _is_silent(dialect, kind))
        self._has_joints = type(dialect).joint is not Dialect.joint
        self._kept: dict[Stack, Stack] = {}
        self._closing_costs: dict[Stack, int] = {}
        self._leads: dict[Stack, str] = {}
        self._steps: dict[tuple[Stack, Stack], tuple[str, str, bool, bool]] = {}
        self.stacks: list[Stack] = []
        self.parts: list[str] = []
        """For each run the step to it, then the run itself, as written."""
        self.totals = [0]
        self._write_all()

    def _write_all(self) -> None:
        cost, limit, hidden, parts, totals = self.cost, self.limit, self.dialect.hidden, self.parts, self.totals
        total = 0
        before: Stack = ()
        for index, (text, stack, role) in enumerate(self.message.runs):
            expressible = self._kept.get(stack)
            if expressible is None:
                expressible = self._expressible(stack)
            self.stacks.append(expressible)
            step = "" if expressible == before else self._step(index, before, expressible)
            if len(text) > limit:  # too long to be written as a whole
                written, price = "", limit + 1
            elif role in hidden:
                # A hidden address has a cost, because a chunk that contains nothing else must show it.
                written, price = "", cost(self._bare(text, role))
            else:
                written = self._written(text, expressible, role)
                price = cost(written)
            total += price + cost(step) if step else price
            parts += (step, written)
            totals.append(total)
            before = expressible

    def _expressible(self, stack: Stack) -> Stack:
        heard = tuple(element for element in self.dialect.expressible(stack) if element.kind not in self._silent)
        known = self._kept[stack] = self._affordable(heard)
        return known

    def _affordable(self, stack: Stack) -> Stack:
        room = self.limit // MAX_ELEMENT_SHARE
        if sum(MAX_MARK_CHARS + 12 * len(element.argument) for element in stack) <= room:
            return stack
        expressible = []
        for element in stack:
            price = self.cost(self.dialect.opening(element)) + self.cost(self.dialect.closing(element))
            if price <= room:
                expressible.append(element)
                room -= price
        return tuple(expressible)

    def _bare(self, text: str, role: Role) -> str:
        return self.dialect.text(text, role, code=None) if role is Role.TARGET else ""

    def lead(self, stack: Stack) -> str:
        known = self._leads.get(stack)
        if known is None:
            known = self._leads[stack] = "".join(self.dialect.lead(element) for element in stack)
        return known

    def part(self, index: int, start: int, end: int) -> str:
        """Write a part of a run."""
        text, _, role = self.message.runs[index]
        return "" if role in self.dialect.hidden else self._written(text[start:end], self.stacks[index], role)

    def _written(self, text: str, stack: Stack, role: Role) -> str:
        written = self.dialect.text(text, role, code=code_around(stack) if role is Role.CODE else None)
        return written.replace("\n", "\n" + self.lead(stack)) if "\n" in written else written

    def _part_cost(self, index: int, start: int, end: int) -> int:
        run = self.message.runs[index]
        if run.role in self.dialect.hidden:
            return self.cost(self._bare(run.text[start:end], run.role))
        return self.cost(self.part(index, start, end))

    def opened(self, stack: Stack) -> str:
        """Write the opening marks at the beginning of a chunk. An ordered list continues with its number."""
        written = []
        for depth, element in enumerate(stack):
            following = stack[depth + 1] if depth + 1 < len(stack) else None
            opened = element
            if (
                element.kind is ElementKind.ORDERED_LIST
                and following is not None
                and following.kind is ElementKind.ITEM
            ):
                opened = Element(kind=ElementKind.ORDERED_LIST, number=following.number)
            written.append(self._with_lead(self.dialect.opening(opened), stack[:depth]))
        return "".join(written)

    def closed(self, stack: Stack, depth: int = 0) -> str:
        """Write the closing marks of a stack from the innermost element down to `depth`."""
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
        """Write what stands between a run and the one before it."""
        known = self._steps.get((before, after))
        if known is None:
            known = self._steps[before, after] = self._change(before, after)
        closing, opening, closes, opens = known
        if not (closes or opens) or not index:
            return closing + opening
        runs = self.message.runs
        last, first = runs[index - 1].text[-1:], runs[index].text[:1]
        return closing + self.dialect.joint(closes=closes, opens=opens, before=last, after=first) + opening

    def _change(self, before: Stack, after: Stack) -> tuple[str, str, bool, bool]:
        """Return what closes one stack, what opens the other, and whether marks end and begin there that may need a
        joint."""
        depth = 0
        for ours, theirs in zip(before, after, strict=False):
            if ours is not theirs:
                break
            depth += 1
        opening = "".join(
            self._with_lead(self.dialect.opening(after[at]), after[:at]) for at in range(depth, len(after))
        )
        # An inline element is innermost, so look at the last of each.
        closes = self._has_joints and depth < len(before) and before[-1].kind in INLINE_KINDS
        opens = self._has_joints and depth < len(after) and after[-1].kind in INLINE_KINDS
        return self.closed(before, depth), opening, closes, opens

    def place(self, position: int) -> tuple[int, int]:
        """Return the run that contains a position, and the offset in it."""
        index = bisect_right(self.message.starts, position) - 1
        return index, position - self.message.starts[index]

    def end_of_fit(self, start: int, end: int) -> int:
        """Return the furthest position, at most `end`, to which a chunk that begins at `start` can reach."""
        first, offset = self.place(start)
        runs, starts = self.message.runs, self.message.starts
        opened = self.cost(self.opened(self.stacks[first]))
        before = opened + self._cost_of_rest(first, offset) - self.totals[first + 1]
        low, high, step = first, self.place(end - 1)[0] + 1, 1
        while low < high:  # exponential, then binary search: a chunk is short, a document may be long
            middle = min(low + step - 1, (low + high) // 2)
            if before + self.totals[middle + 1] + self._closing_cost(middle) <= self.limit:
                low, step = middle + 1, step * 2
            else:
                high, step = middle, len(runs)
        if low == len(runs) or starts[low] >= end:
            return end
        begin = offset if low == first else 0
        spent = opened if low == first else before + self.totals[low] + self.cost(self.parts[2 * low])
        room = self.limit - spent - self._closing_cost(low)
        return min(end, starts[low] + begin + self._fitting(low, begin, room))

    def _cost_of_rest(self, index: int, offset: int) -> int:
        """Return the cost of the rest of a run, or more than any limit if it is certainly too long."""
        end = len(self.message.runs[index].text)
        return self.limit + 1 if end - offset > self.limit else self._part_cost(index, offset, end)

    def _fitting(self, index: int, begin: int, room: int) -> int:
        """Return how many characters of a run fit. Each costs at least one unit; the start is guessed from the cost so
        far."""
        low, low_price = 0, 0
        high = max(0, min(room, len(self.message.runs[index].text) - begin))
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
        """Write the part from `start` to `end`, balanced."""
        first, offset = self.place(start)
        last, stop = self.place(end - 1)
        stop += 1
        opened, closed = self.opened(self.stacks[first]), self.closed(self.stacks[last])
        if first == last:
            return opened + self.part(first, offset, stop) + closed
        begin = self.part(first, offset, len(self.message.runs[first].text))
        between = self.parts[2 * first + 2 : 2 * last + 1]
        return "".join((opened, begin, *between, self.part(last, 0, stop), closed))

    def shows(self, start: int, end: int) -> bool:
        """Return whether anything of the part is visible."""
        if not self.dialect.hidden:
            return not self.message.visible[start:end].isspace()
        first, last = self.place(start)[0], self.place(end - 1)[0]
        for index in range(first, last + 1):
            run, begin = self.message.runs[index], self.message.starts[index]
            if run.role not in self.dialect.hidden:
                text = run.text[max(0, start - begin) : end - begin]
                if text and not text.isspace():
                    return True
        return False

    def write_bare(self, start: int, end: int) -> str:
        """Write the part as text alone, including hidden runs."""
        return self.dialect.text(self.message.visible[start:end], Role.TARGET, code=None)


def _is_silent(dialect: Dialect, kind: ElementKind) -> bool:
    """Return whether elements of this kind leave no trace in the dialect. Most steps then cost nothing."""
    element = Element(kind=kind, argument="x", number=1)
    return not (dialect.opening(element) or dialect.closing(element) or dialect.lead(element))
