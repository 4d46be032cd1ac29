"""The heap of events, the dice and the network: seeded delays, loss as delay, partitions, dead nodes."""

import hashlib
import heapq
import math
import random
from collections.abc import Callable
from typing import Any, Final, Protocol

from restante.testing.mesh_simulation.values import START_MS

TIMEOUT_MS: Final = 5_000
"""How long a request waits for its answer."""
_SIGMA: Final = 0.6
_RESEND_MS: Final = 200.0


class Peer(Protocol):
    """An end of a request."""

    @property
    def side(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...


class Engine:
    """Runs events in the order of their times. Equal times run in the order in which they were planned."""

    def __init__(self, seed: int, *, delay_ms: float, loss: float) -> None:
        self.now_ms = START_MS
        self.dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.events = 0
        self.requests = 0
        self.is_partitioned = False
        self._mu = math.log(delay_ms)
        self._loss = loss
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._planned = 0
        self._trace = hashlib.sha256()

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def note(self, *what: object) -> None:
        """Add what happened to the trace."""
        self._trace.update(f"{self.now_ms}:{what!r};".encode())

    def at(self, time_ms: int, call: Callable[..., None], *args: object) -> None:
        self._planned += 1
        heapq.heappush(self._heap, (max(int(time_ms), self.now_ms), self._planned, call, args))

    def after(self, delay_ms: float, call: Callable[..., None], *args: object) -> None:
        self.at(self.now_ms + int(delay_ms), call, *args)

    def run(self, until_ms: int) -> None:
        while self._heap and self._heap[0][0] <= until_ms:
            self.now_ms, _, call, args = heapq.heappop(self._heap)
            self.events += 1
            call(*args)
        self.now_ms = until_ms

    def delay_ms(self) -> float:
        """Return how long a message takes. Constant delays would hide races; a loss doubles the wait each time."""
        delay = self.dice.lognormvariate(self._mu, _SIGMA)
        wait = _RESEND_MS
        while self._loss and self.dice.random() < self._loss:
            delay, wait = delay + wait, wait * 2
        return max(1.0, delay)

    def can_reach(self, one: Peer, other: Peer) -> bool:
        return other.is_alive and (not self.is_partitioned or one.side == other.side)

    def request(
        self,
        source: Peer,
        target: Peer,
        handle: Callable[[], Any],
        answered: Callable[[Any], None],
        failed: Callable[[], None],
    ) -> None:
        """Run `handle` at the target and `answered` with its result at the source, or `failed` after the time-out."""
        self.requests += 1
        self.after(self.delay_ms(), self._arrive, (source, target, handle, answered, failed), self.now_ms)

    def _arrive(
        self, call: tuple[Peer, Peer, Callable[[], Any], Callable[[Any], None], Callable[[], None]], sent_ms: int
    ) -> None:
        source, target, handle, answered, failed = call
        if self.can_reach(source, target):
            back_ms = self.delay_ms()
            answer = handle()
            if self.now_ms + back_ms <= sent_ms + TIMEOUT_MS:
                self.after(back_ms, self._return, source, target, answer, (answered, failed))
                return
        self.at(sent_ms + TIMEOUT_MS, self._fail, source, failed)

    def _return(
        self, source: Peer, target: Peer, answer: object, calls: tuple[Callable[[Any], None], Callable[[], None]]
    ) -> None:
        if source.is_alive and (not self.is_partitioned or source.side == target.side):
            calls[0](answer)
        else:
            self._fail(source, calls[1])

    def _fail(self, source: Peer, failed: Callable[[], None]) -> None:
        if source.is_alive:
            failed()
