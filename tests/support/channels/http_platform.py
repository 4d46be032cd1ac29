"""An HTTP server that answers like a chat platform: documented replies, slow ones, and none at all."""

import asyncio
import contextlib
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

LOOPBACK = "127.0.0.1"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`accepts` says that the platform takes the message; then it may still be slow, or reset the connection."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    accepts: bool = False
    resets: bool = False
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpPlatform:
    """Gives its `replies` one after the other, then `usual` for ever."""

    def __init__(self, usual: Callable[[Asked], Reply]) -> None:
        self.usual = usual
        self.replies: deque[Reply] = deque()
        self.asked: list[Asked] = []
        self.accepted: list[Asked] = []
        self.url = ""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await _request(reader)
                self.asked.append(asked)
                reply = self.replies.popleft() if self.replies else self.usual(asked)
                if reply.accepts:
                    self.accepted.append(asked)
                if reply.is_silent:
                    await reader.read()
                    break
                if reply.resets:
                    own: socket.socket = writer.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                    break
                headers = {"content-length": str(len(reply.body)), **reply.headers}
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode() + reply.body)
                await writer.drain()
        writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method=method, path=path, headers=headers, body=body)


@contextlib.asynccontextmanager
async def listening(platform: HttpPlatform) -> AsyncIterator[HttpPlatform]:
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await platform.converse(reader, writer)

    server = await asyncio.start_server(serve, LOOPBACK, 0, limit=1 << 20)
    platform.url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    try:
        yield platform
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


def as_json(status: int = 200, *, accepts: bool = False, **value: object) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode(), accepts=accepts)


# What the Bot API documents: https://core.telegram.org/bots/api#making-requests
def telegram_ok(_asked: Asked) -> Reply:
    return as_json(ok=True, result={"message_id": 42, "username": "a_bot"}, accepts=True)


def telegram_no(status: int, description: str, **parameters: int) -> Reply:
    told: dict[str, object] = {"ok": False, "error_code": status, "description": description}
    return Reply(status=status, body=json.dumps(told | ({"parameters": parameters} if parameters else {})).encode())
