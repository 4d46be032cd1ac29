"""Turns between sources for requests that take milliseconds: a FETCH of 64 signatures, a DELETE of 1,024 hashes.

While the loop checks them, it serves no other connection. So it checks some signatures of one such request between two
looks at all connections, of each source in turn; small requests of others are handled in between. Frames of one
connection keep their order. What waits is bounded as puts that wait for the disk are, by connection, source and node.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, Protocol

from restante.core.fair_queue import SOURCE_TURN, FairQueue
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, RestanteError
from restante.model.sources import Source
from restante.node.frame_family import FamilyConnection, Peer
from restante.policy.connection_limits import RelayLimits, may_read
from restante.policy.mesh.bounds import MOST_ANSWERS
from restante.policy.quota import Refusal
from restante.wire.frames.codec import RawFrame
from restante.wire.frames.mesh_types import MeshFrameType

LARGE_BYTES: Final = 2_048  # about 16 signatures, or 60 hashes
_SIGNED: Final = frozenset((MeshFrameType.FETCH, MeshFrameType.MESH_SUBSCRIBE, MeshFrameType.MESH_DELETE))
_TOO_MANY: Final = Refusal(
    permanent=False, code=Code.RATE_LIMITED, text="too many requests of this connection wait for their turn"
)
RETRY_MS: Final = 1_000


class Connection(FamilyConnection, Protocol):
    def check_ahead(self, frame: RawFrame, *, now_s: float) -> bool:
        """Do a part of what a large request takes; return whether `handle` has only a part left."""
        ...


class Turns:
    """The connections of a node that have a large request waiting, and the bytes of all that waits."""

    def __init__(self, limits: RelayLimits) -> None:
        self._limits = limits
        self._queue: FairQueue[InTurns] = FairQueue()
        self._is_planned = False
        self._by_source: Counter[Source] = Counter()

    @property
    def waiting_bytes(self) -> int:
        return self._by_source.total()

    def hold(self, source: Source, size_bytes: int, *, of_connection: int) -> bool:
        """Count a frame that is to wait; return False if there is no room for it."""
        total = self.waiting_bytes + size_bytes
        has_room = total <= self._limits.max_uncommitted_bytes and may_read(
            self._limits,
            of_connection=of_connection + size_bytes,
            of_source=self._by_source[source] + size_bytes,
            total=total,
            sources=len(self._by_source.keys() | {source}),
        )
        if has_room:
            self._by_source[source] += size_bytes
        return has_room

    def release(self, source: Source, size_bytes: int) -> None:
        self._by_source[source] -= size_bytes
        if self._by_source[source] <= 0:
            del self._by_source[source]

    def add(self, connection: "InTurns", peer: Peer) -> None:
        self._queue.add(peer.source, peer, connection, cost=SOURCE_TURN)
        self._plan()

    def _plan(self) -> None:
        if not self._is_planned and len(self._queue):
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._take_one)

    def _take_one(self) -> None:
        self._is_planned = False
        for connection in self._queue.take(1):
            connection.take_turn()
        self._plan()


class InTurns:
    """Hands frames to the family's connection: at once, or from the first large request on when its turn comes."""

    def __init__(self, connection: Connection, peer: Peer, turns: Turns) -> None:
        self.connection = connection
        self._peer = peer
        self._turns = turns
        self._waiting: deque[RawFrame] = deque()
        self._waiting_bytes = 0

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        at = 0 if self._waiting else next((at for at, each in enumerate(frames) if _is_large(each)), len(frames))
        if at:
            self.connection.handle(frames[:at], now_s=now_s)
        if at == len(frames):
            return
        was_idle = not self._waiting
        for each in frames[at:]:
            if not self._wait(each):
                self._peer.refuse(each.request, _TOO_MANY, retry_after_ms=RETRY_MS)
        if was_idle and self._waiting:
            self._turns.add(self, self._peer)

    def take_turn(self) -> None:
        """Go on with the large request that waits. If it is done, handle what came behind it up to the next one."""
        if not self._waiting:
            return  # the connection has ended
        now_s = asyncio.get_running_loop().time()
        try:
            if not self.connection.check_ahead(self._waiting[0], now_s=now_s):
                self._turns.add(self, self._peer)
                return
            frames = [self._pop()]
            while self._waiting and not _is_large(self._waiting[0]):
                frames.append(self._pop())
            if self._waiting:
                self._turns.add(self, self._peer)
            self.connection.handle(frames, now_s=now_s)
        except LocalProtocolError:
            raise
        except RestanteError:
            self._peer.abort()

    def window_opened(self) -> None:
        self.connection.window_opened()

    def lost(self) -> None:
        while self._waiting:
            self._pop()
        self.connection.lost()

    def _wait(self, frame: RawFrame) -> bool:
        size_bytes = len(frame.body)
        if len(self._waiting) >= MOST_ANSWERS:
            return False
        if not self._turns.hold(self._peer.source, size_bytes, of_connection=self._waiting_bytes):
            return False
        self._waiting_bytes += size_bytes
        self._waiting.append(frame)
        return True

    def _pop(self) -> RawFrame:
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame.body)
        self._turns.release(self._peer.source, len(frame.body))
        return frame


def _is_large(frame: RawFrame) -> bool:
    return frame.type in _SIGNED and len(frame.body) > LARGE_BYTES
