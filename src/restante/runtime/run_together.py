"""Run coroutines together until one of them ends, and something once until it is stopped."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from restante.model.errors import LocalProtocolError


class RunOnce:
    """Whether something runs, and whether it is to stop. It does not run twice, nor after it was stopped."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.stopped = asyncio.Event()
        self.stopped.set()

    def start(self) -> None:
        if not self.stopped.is_set() or self.stopping.is_set():
            raise LocalProtocolError("this client runs already, or was closed; open another one")
        self.stopped.clear()


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
