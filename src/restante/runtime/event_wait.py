"""Waits for an event that something else may miss to set."""

import asyncio


async def set_or_after(event: asyncio.Event, seconds: float) -> None:
    """Return once `event` is set; it is set after `seconds` at the latest, for all who wait for it."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
