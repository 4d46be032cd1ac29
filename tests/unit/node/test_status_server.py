"""The status listener ends connections that bring no request, and lets others finish."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from restante.node import status_server
from restante.node.status_server import Answers, StatusServer
from restante.runtime.endpoints import Endpoint

ASKED = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"
SOON_S = 20.0


@pytest.fixture
def may_answer() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def place(may_answer: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Endpoint]:
    monkeypatch.setattr(status_server, "REQUEST_S", 0.05)

    async def health() -> tuple[bool, Mapping[str, Any]]:
        await may_answer.wait()
        return True, {"usable": True}

    async def status() -> Mapping[str, Any]:
        return {}

    server = StatusServer(Answers(health=health, metrics=lambda: b"", status=status))
    yield await server.start(Endpoint(host="127.0.0.1", port=0))
    may_answer.set()
    await server.stop()


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    """All that came before the end, however it came."""
    got = b""
    try:
        async with asyncio.timeout(SOON_S):
            while some := await reader.read(1_000):
                got += some
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize("said", [b"", b"GET /heal", ASKED[:-2]], ids=["nothing", "a part", "all but the end"])
async def test_a_connection_without_a_whole_request_is_ended(place: Endpoint, said: bytes) -> None:
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write(said)
    assert await until_closed(reader) == b""
    writer.close()


async def test_a_trickle_does_not_keep_a_connection_open(place: Endpoint) -> None:
    reader, writer = await asyncio.open_connection(place.host, place.port)
    ended = asyncio.create_task(until_closed(reader))
    for byte in ASKED[:-2]:
        writer.write(bytes([byte]))
        done, _ = await asyncio.wait({ended}, timeout=0.01)
        if done:
            break
    assert await ended == b""
    writer.close()


async def test_an_answer_that_takes_longer_is_still_given(place: Endpoint, may_answer: asyncio.Event) -> None:
    asked, writer = await asyncio.open_connection(place.host, place.port)
    writer.write(ASKED)
    silent, other = await asyncio.open_connection(place.host, place.port)
    await until_closed(silent)  # the younger connection's time is over, so this one's is too
    may_answer.set()
    async with asyncio.timeout(SOON_S):
        assert (await asked.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    other.close()


async def test_an_answer_that_never_comes_does_not_keep_a_connection_open(
    place: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_server, "ANSWER_S", 0.05)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write(ASKED)
    assert await until_closed(reader) == b""
    writer.close()


async def test_there_is_a_limit_to_silent_connections(place: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server, "REQUEST_S", SOON_S)
    monkeypatch.setattr(status_server, "MAX_OPEN", 3)
    opened = [await asyncio.open_connection(place.host, place.port) for _ in range(4)]
    ends = [asyncio.create_task(until_closed(reader)) for reader, _ in opened]
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=SOON_S)
    assert done == {ends[3]}
    for task in ends:
        task.cancel()
    for _, writer in opened:
        writer.close()
