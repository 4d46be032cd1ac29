"""A node of `kademlia` (PyPI) in a process of its own: says when it is ready, works until its standard input ends.

Each line of input is answered with the number of values the node holds.
"""

import asyncio
import socket
import sys
from typing import Final

from kademlia.network import Server

LOOPBACK: Final = "127.0.0.1"
RECEIVE_BUFFER_BYTES: Final = 4_194_304


async def listening(server: Server, port: int) -> None:
    """Listen with a large receive buffer: a lost datagram costs five seconds, and a node its place in the tables."""
    await server.listen(port, interface=LOOPBACK)
    udp = server.transport.get_extra_info("socket")
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


async def serve(port: int, bootstrap: int | None) -> None:
    server = Server()
    await listening(server, port)
    if bootstrap is not None:
        await server.bootstrap([(LOOPBACK, bootstrap)])
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        print(len(server.storage.data), flush=True)
    server.stop()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None))
