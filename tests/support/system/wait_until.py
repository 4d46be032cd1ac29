"""Waiting for a fact, not for a time: how long it takes, the machine decides."""

import asyncio
import time
from collections.abc import Callable, Iterator

LIMIT_S = 60.0  # long enough for a busy machine; a test that needs it has failed
LOOK_S = 0.01


def looks() -> Iterator[None]:
    """One after the other, until the limit is over: then the test fails."""
    give_up_s = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up_s:
        yield
    raise AssertionError(f"it did not happen within {LIMIT_S:.0f} s")


def until(condition: Callable[[], object]) -> None:
    for _ in looks():
        if condition():
            return
        time.sleep(LOOK_S)


async def until_true(condition: Callable[[], object]) -> None:
    """As `until`, while the event loop goes on. Its pauses pass even where the loop's own time stands still."""
    for _ in looks():
        if condition():
            return
        await asyncio.to_thread(time.sleep, LOOK_S)
