"""The request table of a link: request numbers, what waits for each answer, and until when."""

from typing import Final, Generic, TypeVar

from restante.wire.field_checks import MAX_U32

MAX_IN_FLIGHT: Final = 1_024
"""Puts without an answer on one connection: four full commit batches of a relay."""

LONGEST_ANSWER_S: Final = 60.0
"""How long parts of an answer start its time-out again. Else a node could hold who asked it for days, part by part."""

Waiting = TypeVar("Waiting")


class RequestTable(Generic[Waiting]):
    """Open requests, oldest first. All have the same time-out, so the oldest is always due first."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._open: dict[int, tuple[float, float, Waiting]] = {}  # by number: until when, since when, and what waits
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= MAX_IN_FLIGHT

    @property
    def next_due_s(self) -> float | None:
        """Return when the oldest request expires."""
        for due_s, _, _ in self._open.values():
            return due_s
        return None

    def open(self, waiting: Waiting, *, now_s: float) -> int:
        """Return a number that no open request has. 0 is never given: it marks frames that answer nothing."""
        number = self._last % MAX_U32 + 1
        while number in self._open:
            number = number % MAX_U32 + 1
        self._last = number
        self._open[number] = (now_s + self._timeout_s, now_s, waiting)
        return number

    def get(self, request: int) -> Waiting | None:
        """Return what waits for the answer to the request; None if no such request is open."""
        found = self._open.get(request)
        return None if found is None else found[2]

    def extend(self, request: int, *, now_s: float) -> None:
        """Start the time-out of an open request again, because a part of its answer has come: for a minute at most."""
        _, began_s, waiting = self._open[request]
        if now_s < began_s + LONGEST_ANSWER_S:
            del self._open[request]  # the last one is due last
            self._open[request] = (now_s + self._timeout_s, began_s, waiting)

    def close(self, request: int) -> Waiting | None:
        """Remove the request and return what waited for it; None if no such request is open."""
        found = self._open.pop(request, None)
        return None if found is None else found[2]

    def expire(self, now_s: float) -> tuple[Waiting, ...]:
        """Remove the requests whose deadline has passed and return what waited for them."""
        late: list[int] = []
        for number, (due_s, _, _) in self._open.items():
            if due_s > now_s:
                break
            late.append(number)
        return tuple([self._open.pop(number)[2] for number in late])

    def close_all(self) -> list[Waiting]:
        """Remove every request and return what waited for them."""
        waiting = [each for _, _, each in self._open.values()]
        self._open.clear()
        return waiting
