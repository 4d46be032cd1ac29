"""Turns between sources for requests that take milliseconds: a FETCH of 64 signatures, a DELETE of 1,024 hashes.

While the loop checks them, it serves no other connection. So it checks some signatures of one such request between two
looks at all connections, of each source in turn; small requests of others are handled in between. Frames of one
connection keep their order.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from restante.core.fair_queue import SOURCE_TURN, FairQueue
from restante.model.error_codes import Code
from restante.model.errors import LocalProtocolError, RestanteError
from restante.node.frame_family import FamilyConnection, Peer
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
    """The connections of a node that have a large request waiting."""

    def __init__(self) -> None:
        self._queue: FairQueue[InTurns] = FairQueue()
        self._is_planned = False

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

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        at = 0 if self._waiting else next((at for at, each in enumerate(frames) if _is_large(each)), len(frames))
        if at:
            self.connection.handle(frames[:at], now_s=now_s)
        if at == len(frames):
            return
        if not self._waiting:
            self._turns.add(self, self._peer)
        room = MOST_ANSWERS - len(self._waiting)
        self._waiting.extend(frames[at : at + room])
        for each in frames[at + room :]:
            self._peer.refuse(each.request, _TOO_MANY, retry_after_ms=RETRY_MS)

    def take_turn(self) -> None:
        """Go on with the large request that waits. If it is done, handle what came behind it up to the next one."""
        if not self._waiting:
            return  # the connection has ended
        now_s = asyncio.get_running_loop().time()
        try:
            if not self.connection.check_ahead(self._waiting[0], now_s=now_s):
                self._turns.add(self, self._peer)
                return
            frames = [self._waiting.popleft()]
            while self._waiting and not _is_large(self._waiting[0]):
                frames.append(self._waiting.popleft())
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
        self._waiting.clear()
        self.connection.lost()


def _is_large(frame: RawFrame) -> bool:
    return frame.type in _SIGNED and len(frame.body) > LARGE_BYTES
