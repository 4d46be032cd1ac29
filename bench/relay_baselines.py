"""Servers that answer when a message is on disk, each spoken to in its protocol: Redis Streams and NATS JetStream.

Each keeps `WINDOW` messages in flight over one connection without TLS. A server that is not installed is left out.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
WINDOW: Final = 100
PATIENCE_S: Final = 10.0
HOW_TO_INSTALL: Final = {
    "redis-server": "apt install redis-server",
    "nats-server": "a release of 2.10 or later from github.com/nats-io/nats-server (Debian's 2.9 cannot sync always)",
}

Store = Callable[[int], int]
"""Store so many messages durably; how many it were."""


@contextmanager
def redis(folder: Path, payload: bytes) -> Iterator[Store]:
    port = _free_port()
    command = ["redis-server", "--port", str(port), "--bind", LOOPBACK, "--dir", str(folder), "--save", ""]
    with _server([*command, "--appendonly", "yes", "--appendfsync", "always"], port) as line:
        entry = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nd\r\n$%d\r\n%s\r\n" % (len(payload), payload)

        def store(messages: int) -> int:
            for _ in range(messages // WINDOW):
                line.sendall(entry * WINDOW)
                _until(line, b"\r\n", 2 * WINDOW)  # a length and an id each
            return messages // WINDOW * WINDOW

        yield store


@contextmanager
def nats(folder: Path, payload: bytes) -> Iterator[Store]:
    port = _free_port()
    settings = folder / "nats.conf"
    always = "  sync_interval: always\n" if syncs_always() else ""
    settings.write_text(
        f'port: {port}\nhost: {LOOPBACK}\njetstream {{\n  store_dir: "{folder}"\n{always}}}\n', encoding="ascii"
    )
    with _server(["nats-server", "-c", str(settings)], port) as line:
        stream = json.dumps({"name": "S", "subjects": ["s"], "storage": "file"}).encode()
        line.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nSUB a 1\r\n')
        line.sendall(b"PUB $JS.API.STREAM.CREATE.S a %d\r\n%s\r\n" % (len(stream), stream))
        _until(line, b"stream_create_response", 1)
        message = b"PUB s a %d\r\n%s\r\n" % (len(payload), payload)

        def store(messages: int) -> int:
            for _ in range(messages // WINDOW):
                line.sendall(message * WINDOW)
                _until(line, b'"seq":', WINDOW)
            return messages // WINDOW * WINDOW

        yield store


def syncs_always() -> bool:
    """Whether this nats-server can be told to sync every message: 2.10 and later."""
    server = shutil.which("nats-server") or "nats-server"
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = said.rsplit("v", 1)[1].split(".")[:2]
    return (int(major), int(minor)) >= (2, 10)


def is_installed(server: str) -> bool:
    return shutil.which(server) is not None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _server(command: list[str], port: int) -> Iterator[socket.socket]:
    """The server, started, with a connection to it."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with _connected(port) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield line
    finally:
        process.terminate()
        process.wait()


def _connected(port: int) -> socket.socket:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.05)


def _until(line: socket.socket, mark: bytes, times: int) -> None:
    """Read until `mark` has come so often."""
    rest = b""
    while times > 0:
        data = line.recv(65_536)
        if not data:
            raise ConnectionResetError("the server hung up")
        rest += data
        times -= rest.count(mark)
        rest = rest[-(len(mark) - 1) :] if not rest.endswith(mark) else b""
