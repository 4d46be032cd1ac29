"""An event loop whose time moves only when it is told to: what is due is a test's decision, not the machine's.

For deadlines over real sockets. A limit of seconds needs no waiting, and a process that was not scheduled for a while
has not come too late for anything.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from unittest import mock


class StillTime:
    def __init__(self, now_s: float) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s

    def advance(self, by_s: float) -> None:
        self._now_s += by_s


@contextlib.contextmanager
def still_time() -> Iterator[StillTime]:
    """For the running loop. No `asyncio.timeout` and no `asyncio.sleep` ends in it unless the time is advanced."""
    loop = asyncio.get_running_loop()
    made = StillTime(loop.time())
    with mock.patch.object(loop, "time", made.now_s):
        yield made
