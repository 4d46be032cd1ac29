"""The one writer of a database file, as its users see it."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class RunningCommit(Protocol):
    """A commit that may still wait for the disk. An `asyncio.Future` satisfies this."""

    def done(self) -> bool: ...

    def exception(self) -> BaseException | None:
        """Return why nothing was committed; None if the changes are on disk."""
        ...

    def add_done_callback(self, call: Callable[[Any], object], /) -> None: ...


class CommitQueue(Protocol):
    """Runs operations on a database so that those waiting at the same moment share one commit."""

    async def run(self, operation: Callable[[], Result]) -> Result:
        """Return what `operation` returned, once its changes are on disk."""
        ...

    def start(self, operation: Callable[[], object], *, apart: bool) -> RunningCommit:
        """Run `operation` at once unless another commit is running.

        With `apart` a thread waits for the disk, otherwise the event loop does.
        """
        ...
