"""Equal requests for a circuit take turns: the first chooses or builds one, which may serve the others, too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from restante.client.circuits.circuit import CircuitFailed
from restante.model.ids import NodeId
from restante.policy.failures import Failure

WAIT_S: Final = 10.0

Key = tuple[str, frozenset[NodeId]]
"""The use of a circuit, and the nodes that are no hops of it."""


@dataclass(slots=True, eq=False)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0


class Turns:
    def __init__(self) -> None:
        self._turns: dict[Key, _Turn] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: Key, deadline_s: float) -> AsyncIterator[None]:
        """Let the first of equal requests choose; the others wait behind it."""
        turn = self._turns.setdefault(key, _Turn())
        turn.requests += 1
        try:
            await in_time(turn.lock.acquire(), deadline_s)
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            turn.requests -= 1
            if not turn.requests:
                del self._turns[key]


async def in_time(waiting: Coroutine[Any, Any, bool], deadline_s: float) -> None:
    """Wait until the deadline at most. Raises `CircuitFailed` then."""
    try:
        async with asyncio.timeout_at(deadline_s):
            await waiting
    except TimeoutError:
        wait_ms = round(WAIT_S * 1_000)
        text = "all circuits of this client are in use"
        raise CircuitFailed(text, failure=Failure.RATE_LIMITED, retry_after_ms=wait_ms) from None
