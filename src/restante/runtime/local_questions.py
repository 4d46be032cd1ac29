"""A process answers questions of its own user on this machine: a listener on loopback that wants a token.

Where it listens and the token are in a note that only this user can read. Nothing is written to disk besides.
"""

import asyncio
import contextlib
import hmac
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from restante.model.errors import EnvironmentUnsuitable

LOOPBACK: Final = "127.0.0.1"
TOKEN_BYTES: Final = 32
ANSWER_S: Final = 5.0
MAX_ANSWER_BYTES: Final = 1_048_576


@contextlib.asynccontextmanager
async def answering(answer: Callable[[], dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Answer until the block ends; yield the note from which `ask` knows where and with which token."""
    token = secrets.token_hex(TOKEN_BYTES)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
            async with asyncio.timeout(ANSWER_S):
                given = await reader.readexactly(len(token))
                if hmac.compare_digest(given, token.encode()):
                    writer.write(json.dumps(answer()).encode())
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0, limit=2 * len(token))
    try:
        yield {"port": server.sockets[0].getsockname()[1], "token": token}
    finally:
        server.close()


def ask(note: dict[str, Any]) -> dict[str, Any]:
    """Ask the process that wrote the note. Raises `EnvironmentUnsuitable` if it does not answer."""
    try:
        with socket.create_connection((LOOPBACK, int(note["port"])), timeout=ANSWER_S) as asked:
            asked.sendall(str(note["token"]).encode())
            raw = b""
            while part := asked.recv(65_536):
                raw += part
                if len(raw) > MAX_ANSWER_BYTES:
                    break
        answer = json.loads(raw)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise EnvironmentUnsuitable("the running client does not answer; look again in a moment") from problem
    if not isinstance(answer, dict):
        raise EnvironmentUnsuitable("the running client does not answer; look again in a moment")
    return answer
