"""Makes senders wait for space in the outbox instead of losing mail or refusing it at once (SPEC 1.8, 3.6)."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

from restante.model.errors import Malformed, OutboxFull
from restante.runtime.sqlite.file.client_file import ClientFile

Item = TypeVar("Item")
Result = TypeVar("Result")

SPACE_DEADLINE_S: Final = 60.0  # SPEC 3.6: how long `Client.send` and the command line wait for space by default
LOOK_AGAIN_S: Final = 1.0  # another process may have made space


class SpaceWaiter:
    """Runs operations that may find the outbox full. Those that wait continue in the order they came."""

    def __init__(self, file: ClientFile) -> None:
        self._file = file
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    def wake(self) -> None:
        """Let the first waiting sender try again: an entry may have left the outbox."""
        self._freed.set()

    async def accept(self, operation: Callable[[], Result], *, wait: bool, deadline_s: float) -> Result:
        """Run `operation` in a commit. While it raises `OutboxFull`, wait for space, up to the deadline."""
        if not wait:
            return await self._file.run(operation)
        full: OutboxFull | None = None
        if not self._turn.locked():
            try:
                return await self._file.run(operation)
            except OutboxFull as refused:
                full = refused
        try:
            async with asyncio.timeout(deadline_s), self._turn:
                while True:
                    self._freed.clear()
                    try:
                        return await self._file.run(operation)
                    except OutboxFull as refused:
                        full = refused
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_AGAIN_S):
                            await self._freed.wait()
        except TimeoutError:
            raise full or OutboxFull("other senders wait for space in the outbox; this one waited too long") from None


async def in_batches(items: Iterable[Item] | AsyncIterable[Item], *, size: int) -> AsyncIterator[list[Item]]:
    """Yield lists of up to `size` items. An async iterable is not read ahead of the batch."""
    batch: list[Item] = []
    if isinstance(items, str | bytes):
        raise Malformed("send_many takes several messages: give a list, or use send")
    if isinstance(items, AsyncIterable):
        async for item in items:
            batch.append(item)
            if len(batch) >= size:
                yield batch
                batch = []
    elif isinstance(items, Iterable):
        for item in items:
            batch.append(item)
            if len(batch) >= size:
                yield batch
                batch = []
    else:
        raise Malformed(f"send_many takes an iterable of messages, not {type(items).__name__}")
    if batch:
        yield batch
