"""runtime/event_wait: an event that nobody sets is set after a while."""

import asyncio

from restante.runtime.event_wait import set_or_after

LONG_S = 60.0


async def test_an_event_that_nobody_sets_is_set_after_its_time() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(LONG_S):
        await set_or_after(event, 0.0)
    assert event.is_set()


async def test_an_event_that_is_set_ends_the_wait_at_once() -> None:
    event = asyncio.Event()
    async with asyncio.timeout(LONG_S):
        waiting = asyncio.create_task(set_or_after(event, 10 * LONG_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        event.set()
        await waiting


async def test_an_event_is_left_alone_after_the_wait() -> None:
    event = asyncio.Event()
    event.set()
    await set_or_after(event, 0.0)
    event.clear()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not event.is_set()
