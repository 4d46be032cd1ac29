"""Application events: callbacks after each commit, and streams that are read at their own pace (SPEC 3.12)."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

Told = TypeVar("Told")

MAX_WAITING: Final = 10_000
"""Events that a slow reader may leave unread. Beyond that it gets `Missed` with their number; the journal has all."""


@dataclass(frozen=True, slots=True)
class Missed:
    """The reader was too slow for this many events."""

    changes: int


class EventStream(Generic[Told]):
    """An async iterator over events from now on. Close it, or leave its `async with` block, when done."""

    def __init__(self, leave: Callable[["EventStream[Told]"], None]) -> None:
        self._leave = leave
        self._waiting: asyncio.Queue[Told | None] = asyncio.Queue()
        self._missed = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told | Missed:
        if self._missed and self._waiting.qsize() < MAX_WAITING:
            missed, self._missed = self._missed, 0
            return Missed(missed)
        change = await self._waiting.get()
        if change is None:
            raise StopAsyncIteration
        return change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream; a reader that waits gets the end."""
        self._leave(self)
        self._waiting.put_nowait(None)

    def offer(self, change: Told) -> None:
        if self._missed or self._waiting.qsize() >= MAX_WAITING:
            self._missed += 1
        else:
            self._waiting.put_nowait(change)


class EventBroadcaster(Generic[Told]):
    """Passes events to all streams and callbacks."""

    def __init__(self) -> None:
        self._streams: list[EventStream[Told]] = []
        self._callbacks: list[Callable[[Told], None]] = []
        self.is_heard = False

    def stream(self) -> EventStream[Told]:
        stream: EventStream[Told] = EventStream(self._leave)
        self._streams.append(stream)
        self.is_heard = True
        return stream

    def call(self, callback: Callable[[Told], None]) -> Callable[[], None]:
        """Call `callback` with each event, after its commit; call the result to stop."""
        self._callbacks.append(callback)
        self.is_heard = True

        def stop() -> None:
            self._callbacks.remove(callback)
            self._look_who_hears()

        return stop

    def announce(self, changes: Iterable[Told]) -> None:
        for change in changes:
            for stream in self._streams:
                stream.offer(change)
            for callback in tuple(self._callbacks):
                try:
                    callback(change)
                except Exception as problem:  # noqa: BLE001 - it must not affect the others
                    loop = asyncio.get_running_loop()
                    loop.call_exception_handler({"message": "a callback of the outbox failed", "exception": problem})

    def close(self) -> None:
        for stream in tuple(self._streams):
            stream.close()

    def _leave(self, stream: EventStream[Told]) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
            self._look_who_hears()

    def _look_who_hears(self) -> None:
        self.is_heard = bool(self._streams or self._callbacks)
