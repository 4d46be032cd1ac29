"""What the hosts of a circuit simulation share: the nodes, the dice, and requests over connections that stand."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from restante.model.ids import NodeId
from restante.testing.circuit_simulation.backoff import Backoff, Line
from restante.testing.mesh_simulation.engine import Engine, Peer
from restante.testing.mesh_simulation.values import Answered, Failed, Handle

if TYPE_CHECKING:
    from restante.testing.circuit_simulation.hop import HopNode

TICKET_BYTES: Final = 8


class Tickets:
    """What a node does for a request, by the number that travels in it. Sealed bytes are not simulated."""

    def __init__(self) -> None:
        self._handles: dict[int, dict[NodeId, Callable[[], Any]]] = {}
        self._answers: dict[int, object] = {}
        self._last = 0

    def issue(self, handles: dict[NodeId, Callable[[], Any]]) -> bytes:
        self._last += 1
        self._handles[self._last] = handles
        return self._last.to_bytes(TICKET_BYTES, "big")

    def handle(self, raw: bytes, node: NodeId) -> Callable[[], Any]:
        return self._handles[int.from_bytes(raw[:TICKET_BYTES], "big")][node]

    def keep(self, answer: object) -> bytes:
        self._last += 1
        self._answers[self._last] = answer
        return self._last.to_bytes(TICKET_BYTES, "big")

    def take(self, raw: bytes) -> Any:
        return self._answers.pop(int.from_bytes(raw[:TICKET_BYTES], "big"))

    def forget(self, raw: bytes) -> None:
        self._handles.pop(int.from_bytes(raw[:TICKET_BYTES], "big"), None)


class World:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dice: random.Random = engine.dice
        self.tickets = Tickets()
        self.hops: dict[NodeId, HopNode] = {}
        self.drops = 0
        self._lines: dict[tuple[Peer, Peer], Line] = {}

    def line(self, near: Peer, far: Peer) -> Line:
        """Return the connection that the near peer has to the far one."""
        return self._lines.setdefault((near, far), Line())

    def hang_up(self, near: Peer, far: Peer) -> None:
        """End that connection: what is sent next takes a new one."""
        self._lines.pop((near, far), None)

    def crashed(self, peer: Peer) -> None:
        """End all connections of a peer whose process is gone."""
        for ends in [each for each in self._lines if peer in each]:
            del self._lines[ends]

    def exchange(
        self, source: Peer, target: Peer, handle: Handle, answered: Answered, failed: Failed, *, limit_ms: int
    ) -> None:
        """Run `handle` at the target and `answered` with its result at the source.

        `failed` is called when the target's machine refuses because its process is gone, or at the limit.
        """
        _Exchange(self.engine, (source, target), handle, answered, failed).begin(limit_ms)


class _Exchange:
    """One request and its answer. Both wait, as TCP lets them, while a partition lasts."""

    def __init__(
        self, engine: Engine, ends: tuple[Peer, Peer], handle: Handle, answered: Answered, failed: Failed
    ) -> None:
        self._engine = engine
        self._source, self._target = ends
        self._handle, self._answered, self._failed = handle, answered, failed
        self._backoff = Backoff()
        self._is_over = False

    def begin(self, limit_ms: int) -> None:
        self._engine.after(self._engine.delay_ms(), self._arrive)
        self._engine.after(limit_ms, self._end, self._failed)

    def _arrive(self) -> None:
        if self._is_over or self._waits(self._arrive):
            return
        if not self._target.is_alive:
            self._engine.after(self._engine.delay_ms(), self._end, self._failed)
            return
        self._engine.after(self._engine.delay_ms(), self._return, self._handle())

    def _return(self, answer: object) -> None:
        if not self._is_over and not self._waits(self._return, answer):
            self._end(lambda: self._answered(answer))

    def _waits(self, again: Callable[..., None], *args: object) -> bool:
        is_cut = self._engine.is_partitioned and self._source.side != self._target.side
        if is_cut:
            self._backoff.failed(self._engine.now_ms)
            self._engine.at(self._backoff.until_ms, again, *args)
        return is_cut

    def _end(self, call: Callable[[], None]) -> None:
        if not self._is_over:
            self._is_over = True
            if self._source.is_alive:
                call()
