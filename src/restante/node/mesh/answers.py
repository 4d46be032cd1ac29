"""Long answers of one connection, sent as far as the peer reads: pages of lists, blobs, pushed mail.

An answer is a generator of encoded frames, so that nothing is read from the store before there is space to send it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from restante.model.errors import StoreUnusable
from restante.node.frame_family import Peer
from restante.policy.mesh.bounds import MOST_ANSWERS

FRAMES_A_TURN: Final = 16  # then other connections are served
BYTES_A_TURN: Final = 65_536


class AnswerQueue:
    """`on_idle` is called when all answers are sent and the peer still reads; it returns frames to push, or None."""

    def __init__(self, peer: Peer, on_idle: Callable[[], bytes | None]) -> None:
        self._peer = peer
        self._on_idle = on_idle
        self._answers: deque[Iterator[bytes]] = deque()
        self._is_scheduled = False

    @property
    def is_full(self) -> bool:
        return len(self._answers) >= MOST_ANSWERS

    def add(self, answer: Iterator[bytes]) -> None:
        """Queue an answer. The caller calls `flush` once it has handled all frames that came together."""
        self._answers.append(answer)

    def flush(self) -> None:
        """Send as much as one turn may: the frames that came together are answered together, without a turn between."""
        if self._answers and not self._is_scheduled:
            self._send_some()

    def continue_(self) -> None:
        """Go on sending in the next turn of the loop."""
        if not self._is_scheduled and self._peer.is_open:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_some)

    def clear(self) -> None:
        self._answers.clear()

    def _send_some(self) -> None:
        """Send the frames of one turn together: a TLS record and a system call each would cost more than the frames."""
        self._is_scheduled = False
        if not (self._peer.is_open and self._peer.can_write):
            return  # `window_opened` continues
        turn: list[bytes] = []
        size_bytes = 0
        while len(turn) < FRAMES_A_TURN and size_bytes < BYTES_A_TURN:
            try:
                raw = self._next()
            except StoreUnusable:
                self._peer.abort()  # the peer asks another node, and this one later
                return
            if raw is None:
                break
            turn.append(raw)
            size_bytes += len(raw)
        else:
            self.continue_()
        if turn:
            self._peer.send(b"".join(turn))

    def _next(self) -> bytes | None:
        while self._answers:
            raw = next(self._answers[0], None)
            if raw is not None:
                return raw
            self._answers.popleft()
        return self._on_idle()
