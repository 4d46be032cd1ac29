"""Paces bulk mail: takes messages no faster than the outbox has space for them (SPEC 3.6)."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Final, TypeVar

from restante.model.errors import Malformed

Item = TypeVar("Item")

SPACE_DEADLINE_S: Final = 60.0  # SPEC 3.6: how long `Client.send` and the command line wait for space by default


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
