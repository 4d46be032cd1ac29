"""The one writer of a database file, as its users see it."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class CommitQueue(Protocol):
    """Runs operations on a database so that those waiting at the same moment share one commit."""

    async def run(self, operation: Callable[[], Result]) -> Result:
        """Return what `operation` returned, once its changes are on disk."""
        ...

    def start(self, operation: Callable[[], Result], *, apart: bool) -> asyncio.Future[Result]:
        """Run `operation` at once unless another commit is running.

        With `apart` a thread waits for the disk, otherwise the event loop does.
        """
        ...
