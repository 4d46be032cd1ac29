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
        self._answers.append(answer)
        self.continue_()

    def continue_(self) -> None:
        """Go on sending in the next turn of the loop."""
        if not self._is_scheduled and self._peer.is_open:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_some)

    def clear(self) -> None:
        self._answers.clear()

    def _send_some(self) -> None:
        self._is_scheduled = False
        for _ in range(FRAMES_A_TURN):
            if not (self._peer.is_open and self._peer.can_write):
                return  # `window_opened` continues
            try:
                raw = self._next()
            except StoreUnusable:
                self._peer.abort()  # the peer asks another node, and this one later
                return
            if raw is None:
                return
            self._peer.send(raw)
        self.continue_()

    def _next(self) -> bytes | None:
        while self._answers:
            raw = next(self._answers[0], None)
            if raw is not None:
                return raw
            self._answers.popleft()
        return self._on_idle()
