"""Links with a delay, for benchmarks on one machine: everything that a process dials, both ways.

`python -m bench.link_delay MS node run DIR` runs a node whose links have it.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any


class _Line:
    """Calls functions in order, each after the delay."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._calls: deque[Callable[[], object]] = deque()

    def later(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self._loop.call_later(self._delay_s, self._call_next)

    def _call_next(self) -> None:
        self._calls.popleft()()


class _Transport(asyncio.Transport):
    """Writes to another transport after the delay."""

    def __init__(self, below: asyncio.Transport, delay_s: float) -> None:
        super().__init__()
        self._below = below
        self._line = _Line(delay_s)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        copied = bytes(data)
        self._line.later(lambda: self._below.write(copied))

    def write_eof(self) -> None:
        self._line.later(self._below.write_eof)

    def close(self) -> None:
        self._line.later(self._below.close)

    def abort(self) -> None:
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)


class _Protocol(asyncio.Protocol):
    """Hands on what arrives after the delay."""

    def __init__(self, above: asyncio.BaseProtocol, delay_s: float) -> None:
        self._above = above
        self._delay_s = delay_s
        self._line = _Line(delay_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._above.connection_made(_Transport(transport, self._delay_s))

    def data_received(self, data: bytes) -> None:
        self._line.later(lambda: self._hand_on(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._line.later(lambda: self._above.connection_lost(exc))

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()

    def _hand_on(self, data: bytes) -> None:
        if not isinstance(self._above, asyncio.BufferedProtocol):
            assert isinstance(self._above, asyncio.Protocol)
            self._above.data_received(data)
            return
        rest = memoryview(data)
        while rest:
            room = memoryview(self._above.get_buffer(-1))
            size = min(len(room), len(rest))
            room[:size] = rest[:size]
            self._above.buffer_updated(size)
            rest = rest[size:]


def install(delay_s: float) -> None:
    """Delay all links that this process dials from now on."""
    loop_class = asyncio.base_events.BaseEventLoop
    dial = loop_class.create_connection

    async def create_connection(loop: Any, factory: Any, *args: Any, **more: Any) -> Any:
        above = factory()
        transport, _ = await dial(loop, lambda: _Protocol(above, delay_s), *args, **more)
        return transport, above

    loop_class.create_connection = create_connection  # type: ignore[method-assign,assignment]  # what this is for


if __name__ == "__main__":
    install(float(sys.argv[1]) / 1_000)
    del sys.argv[1]
    from restante.cli.main import main

    main()
