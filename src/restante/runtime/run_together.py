"""Run coroutines together until one of them ends."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def run_until_one_ends(jobs: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all jobs. When one ends or this is cancelled, cancel the others and wait for them; raise what a job raised.

    It is no TaskGroup: before Python 3.13 that loses a cancellation that comes together with a task's own error.
    """
    tasks = [asyncio.create_task(each) for each in jobs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
