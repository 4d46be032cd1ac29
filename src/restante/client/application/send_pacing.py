"""Paces bulk mail: takes messages no faster than the outbox has space for them (SPEC 3.6)."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from restante.model.errors import Malformed, OutboxFull, TooLarge

Item = TypeVar("Item")
Result = TypeVar("Result")

SPACE_DEADLINE_S: Final = 60.0  # SPEC 3.6: how long `Client.send` and the command line wait for space by default


async def in_batches(items: Iterable[Item] | AsyncIterable[Item], *, size: int) -> AsyncIterator[list[Item]]:
    """Yield lists of up to `size` items. Of an async iterable a batch is what it has given so far: none waits for the
    next."""
    if isinstance(items, AsyncIterable):
        async for batch in _as_they_come(items, size=size):
            yield batch
    else:
        for batch in lists_of(items, size=size):
            yield batch


def lists_of(items: Iterable[Item], *, size: int) -> Iterator[list[Item]]:
    """Yield lists of up to `size` items."""
    if isinstance(items, str | bytes):
        raise Malformed("send_many takes several messages: give a list, or use send")
    if not isinstance(items, Iterable):
        raise Malformed(f"send_many takes an iterable of messages, not {type(items).__name__}")
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


async def accepted_in_parts(
    batch: list[Item], accept: Callable[[list[Item], bool], Awaitable[list[Result]]]
) -> AsyncIterator[list[Result]]:
    """Accept a batch whole if possible, otherwise half by half, so that everything before a refused item is accepted.

    `accept` takes items and whether it may wait for space: only a single one waits, because many may never fit.
    """
    try:
        results = await accept(batch, len(batch) == 1)
    except (OutboxFull, TooLarge, Malformed):
        if len(batch) == 1:
            raise
    else:
        yield results
        return
    half = (len(batch) + 1) // 2
    for part in (batch[:half], batch[half:]):
        async for results in accepted_in_parts(part, accept):
            yield results


async def _as_they_come(items: AsyncIterable[Item], *, size: int) -> AsyncIterator[list[Item]]:
    """Read the source in a task of its own, at most `size` items ahead. What it gave before it raised comes first."""
    taken: list[Item] = []
    has_items, has_room = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for item in items:
            taken.append(item)
            has_items.set()
            if len(taken) >= size:
                has_room.clear()
                await has_room.wait()

    reading = asyncio.create_task(read())
    reading.add_done_callback(lambda _: has_items.set())
    try:
        while not reading.done() or taken:
            await has_items.wait()
            has_items.clear()
            batch = taken[:]
            taken.clear()
            has_room.set()
            if batch:
                yield batch
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
