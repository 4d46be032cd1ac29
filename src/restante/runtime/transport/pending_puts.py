"""Puts that are under way on one link: what each must be answered for, until when, and how many there may be.

Believes a relay only by its signature over exactly the bytes that were put. Knows no socket.
"""

import asyncio
from typing import Final, NamedTuple

from restante.core.signed_acks import Evidence, is_evidence_by
from restante.model.ids import NodeKey, PayloadHash
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.frames.codec import Stored

MAX_UNDER_WAY: Final = 1_024


class _Put(NamedTuple):
    sealed: PayloadHash
    due_s: float
    answer: asyncio.Future[Evidence]


class PendingPuts:
    """By request number, oldest first."""

    def __init__(self, node: NodeKey, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._puts: dict[int, _Put] = {}
        self._room = asyncio.Event()

    def is_full(self) -> bool:
        return len(self._puts) >= MAX_UNDER_WAY

    async def room(self) -> None:
        """Until one more may be under way, or none are."""
        while self.is_full():
            self._room.clear()
            await self._room.wait()

    def add(self, request: int, sealed: PayloadHash, *, due_s: float) -> asyncio.Future[Evidence]:
        answer: asyncio.Future[Evidence] = self._loop.create_future()
        self._puts[request] = _Put(sealed, due_s, answer)
        return answer

    def stored(self, frame: Stored) -> None:
        """An answer for many. What it names that nobody waits for any more makes it unverifiable, for all of them."""
        theirs = [self._puts.pop(request, None) for request in frame.requests]
        known = [put for put in theirs if put is not None]
        evidence = Evidence(batch=frame.batch, sealed_hashes=tuple([put[0] for put in known]))
        is_true = len(known) == len(theirs) and is_evidence_by(evidence, self._node)
        for put in known:
            if put.answer.done():
                continue
            if is_true:
                put.answer.set_result(evidence)
            else:
                text = "the relay's acknowledgement is not its own"
                put.answer.set_exception(AttemptFailed(text, failure=Failure.STORAGE_REFUSED))
        self._room.set()

    def fail(self, request: int, problem: AttemptFailed) -> bool:
        """Whether there was such a put."""
        put = self._puts.pop(request, None)
        if put is not None and not put.answer.done():
            put.answer.set_exception(problem)
        self._room.set()
        return put is not None

    def expire(self, now_s: float) -> float | None:
        """Give up on what is overdue; when to look again, if anything is left."""
        while self._puts:
            request, put = next(iter(self._puts.items()))
            if put.due_s > now_s:
                return put.due_s
            self.fail(request, AttemptFailed("the relay did not answer in time", failure=Failure.NETWORK_TIMEOUT))
        return None

    def lose(self) -> None:
        for request in tuple(self._puts):
            self.fail(request, ConnectionLost())
