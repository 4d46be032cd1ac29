"""A connection between two simulated peers: frames arrive in order and wait while a partition lasts."""

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from restante.testing.circuit_simulation.backoff import Line
from restante.testing.mesh_simulation.engine import Engine, Peer

NEAR: Final = 0
FAR: Final = 1


class Kind(Enum):
    CREATE = auto()
    CREATED = auto()
    CELL = auto()
    DESTROY = auto()
    DATA = auto()
    """Bytes of an inner connection, between an exit and a node."""


class Frame(NamedTuple):
    kind: Kind
    body: bytes = b""
    hop: int = 0


class Listener(Protocol):
    """One end of a segment."""

    def on_frame(self, segment: "Segment", frame: Frame, /) -> None: ...

    def on_lost(self, segment: "Segment", /) -> None: ...


class Segment:
    """`ends` are the peers: the near one dialled. What has no listener is lost."""

    def __init__(self, engine: Engine, near: Peer, far: Peer, line: Line) -> None:
        self.ends = (near, far)
        self.listeners: list[Listener | None] = [None, None]
        self.is_open = True
        self._engine = engine
        self._queues: tuple[deque[Frame], deque[Frame]] = (deque(), deque())
        self._last_ms = [0, 0]
        self._line = line

    def send(self, to: int, frame: Frame) -> None:
        if not self.is_open:
            return
        at_ms = max(self._last_ms[to], self._engine.now_ms + int(self._engine.delay_ms()))
        self._last_ms[to] = at_ms
        self._queues[to].append(frame)
        self._engine.at(at_ms, self._arrive, to)

    def close(self) -> None:
        """End it without a word; the far end is told by a frame before."""
        self.is_open = False

    def crashed(self, end: int) -> None:
        """The process of one end is gone: the other one hears it from the operating system."""
        self.listeners[end] = None
        self._engine.after(self._engine.delay_ms(), self._lost, 1 - end)

    def _arrive(self, to: int) -> None:
        if not self.is_open or not self._queues[to]:
            return
        if self._waits(to, self._arrive):
            return
        frame = self._queues[to].popleft()
        listener = self.listeners[to]
        if listener is not None and self.ends[to].is_alive:
            listener.on_frame(self, frame)
        else:
            self._engine.after(self._engine.delay_ms(), self._lost, 1 - to)

    def _lost(self, end: int) -> None:
        if not self.is_open or self._waits(end, self._lost):
            return
        self.is_open = False
        listener = self.listeners[end]
        if listener is not None:
            listener.on_lost(self)

    def _waits(self, to: int, again: Callable[[int], None]) -> bool:
        """Return whether nothing passes now; then `again` is called when TCP tries again."""
        near, far = self.ends
        direction, now_ms = self._line.directions[to], self._engine.now_ms
        if now_ms >= direction.until_ms:
            if not self._engine.is_partitioned or near.side == far.side:
                direction.passed()
                return False
            direction.failed(now_ms)
        self._engine.at(direction.until_ms, again, to)
        return True
