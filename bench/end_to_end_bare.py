"""The least that such a message costs in Python: three processes, two TLS connections, three commits, the cryptography.

It has none of Restante's rules: no lanes, leases, retries, deduplication, order, acks, quotas, limits or metrics, one
sender, one recipient, and nothing is recorded of what happens to a message later. Beside the message each process
commits only what its guarantees need at that moment. What a design in this language and with these libraries can reach
lies between this and Restante.
"""

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw

from bench.crypto import ALICE, BOB, BOUND, Ours
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES, decrypt, encrypt
from restante.crypto.ratchet_codec import decode_ratchet, encode_ratchet
from restante.crypto.sealing import seal, unseal
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.runtime.transport.tls import client_context, server_context

BODY: Final = bytes(1_016)
PADDED_BYTES: Final = 4_096
LOOPBACK: Final = "127.0.0.1"
LENGTH_BYTES: Final = 4
TIME_BYTES: Final = 8
NOW_MS: Final = 1_800_000_000_000
CHECKPOINT_PAGES: Final = 2_000

TABLES: Final = """
CREATE TABLE journal (number INTEGER PRIMARY KEY, at_ms INTEGER, kind TEXT, message_id BLOB, hash BLOB);
CREATE TABLE body (number INTEGER PRIMARY KEY, sealed BLOB, plaintext BLOB);
CREATE TABLE message (number INTEGER PRIMARY KEY, message_id BLOB UNIQUE, state TEXT, expires_at_ms INTEGER);
CREATE TABLE session (number INTEGER PRIMARY KEY, state BLOB);
INSERT INTO session VALUES (1, x'');
"""


class Store:
    """One file with the settings of ours. A commit is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        for name, value in (("journal_mode", "wal"), ("synchronous", "full"), ("wal_autocheckpoint", CHECKPOINT_PAGES)):
            self._connection.pragma(name, value)
        self._connection.execute(TABLES)
        self._run = self._connection.cursor().execute

    def commit(
        self, *, message_id: bytes, sealed: bytes, plaintext: bytes, kinds: tuple[str, ...], state: bytes
    ) -> None:
        self._run("BEGIN IMMEDIATE")
        self._run("INSERT INTO body (sealed, plaintext) VALUES (?, ?)", (sealed, plaintext))
        self._run("INSERT INTO message (message_id, state, expires_at_ms) VALUES (?, 'x', ?)", (message_id, NOW_MS))
        for kind in kinds:
            row = (NOW_MS, kind, message_id, message_id * 2)
            self._run("INSERT INTO journal (at_ms, kind, message_id, hash) VALUES (?, ?, ?, ?)", row)
        if state:
            self._run("UPDATE session SET state = ? WHERE number = 1", (state,))
        self._run("COMMIT")


class Wire(asyncio.Protocol):
    """Bytes with their length before them."""

    def __init__(self, on_message: Callable[["Wire", bytes], None]) -> None:
        self._on_message = on_message
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[LENGTH_BYTES:end])
            del self._buffer[:end]
            self._on_message(self, message)

    def send(self, message: bytes) -> None:
        self._transport.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)


async def relay(folder: Path) -> None:
    """Store what comes and pass it on to the one that said that it receives; then sign for it."""
    store = Store(folder / "relay.db")
    receiving: list[Wire] = []

    def on_message(wire: Wire, message: bytes) -> None:
        if not message:
            receiving.append(wire)
            return
        store.commit(message_id=message[:16], sealed=message, plaintext=b"", kinds=("stored",), state=b"")
        for each in receiving:
            each.send(message)
        wire.send(ALICE.sign(message[:64]))

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Wire(on_message), LOOPBACK, 0, ssl=server_context(ALICE))
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


async def _connected(port: int, on_message: Callable[[Wire, bytes], None]) -> Wire:
    context: ssl.SSLContext = client_context()
    _, wire = await asyncio.get_running_loop().create_connection(
        lambda: Wire(on_message), LOOPBACK, port, ssl=context, server_hostname=LOOPBACK
    )
    return wire


async def receive(folder: Path, port: int, count: int) -> None:
    """Decrypt and store each message, and let the sender know that the application has it."""
    store, at_rest = Store(folder / "recipient.db"), StorageSeal(BOB.storage_key)
    state = decode_ratchet((folder / "bob").read_bytes())
    turns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken_ns: list[int] = []
    ended = asyncio.Event()

    def on_message(_wire: Wire, message: bytes) -> None:
        nonlocal state
        message_id, padded = message[:16], unseal(message[16:], BOB)
        length = int.from_bytes(padded[:LENGTH_BYTES], "big")
        state, body = decrypt(state, padded[LENGTH_BYTES : LENGTH_BYTES + length], BOUND, now_ms=NOW_MS)
        kept = at_rest.seal(body, nonce=os.urandom(NONCE_BYTES), context=message_id)
        sealed_state = at_rest.seal(encode_ratchet(state), nonce=os.urandom(NONCE_BYTES), context=b"s")
        kinds = ("arrived", "released")
        store.commit(message_id=message_id, sealed=b"", plaintext=kept, kinds=kinds, state=sealed_state)
        shown = at_rest.unseal(kept, context=message_id)
        taken_ns.append(time.monotonic_ns() - int.from_bytes(shown[:TIME_BYTES], "big"))
        turns.sendto(b"", str(folder / "turns"))
        if len(taken_ns) == count:
            ended.set()

    wire = await _connected(port, on_message)
    wire.send(b"")
    print("ready", flush=True)
    await ended.wait()
    print(json.dumps([each / 1_000 for each in taken_ns]), flush=True)


async def send(folder: Path, port: int, count: int) -> None:
    """Encrypt, store and send one message after the other."""
    store, at_rest = Store(folder / "sender.db"), StorageSeal(ALICE.storage_key)
    state = decode_ratchet((folder / "alice").read_bytes())
    came = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Turns(asyncio.DatagramProtocol):
        def datagram_received(self, _data: bytes, _from: object) -> None:
            came.set()

    taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    taken.bind(str(folder / "turns"))
    await loop.create_datagram_endpoint(Turns, sock=taken)
    wire = await _connected(port, lambda _wire, _signature: None)
    for _ in range(count):
        body = time.monotonic_ns().to_bytes(TIME_BYTES, "big") + BODY
        message_id = os.urandom(16)
        kept = at_rest.seal(body, nonce=os.urandom(NONCE_BYTES), context=message_id)
        state, message = encrypt(state, body, BOUND, entropy=os.urandom(ENCRYPT_ENTROPY_BYTES))
        padded = (len(message).to_bytes(LENGTH_BYTES, "big") + message).ljust(PADDED_BYTES, b"\0")
        sealed = message_id + seal(padded, BOB.card)
        sealed_state = at_rest.seal(encode_ratchet(state), nonce=os.urandom(NONCE_BYTES), context=b"s")
        kinds = ("accepted", "leased")
        store.commit(message_id=message_id, sealed=sealed, plaintext=kept, kinds=kinds, state=sealed_state)
        wire.send(sealed)
        await came.wait()
        came.clear()


def _started(role: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.end_to_end_bare", role, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def bare_latencies_us(folder: Path, messages: int) -> list[float]:
    """Return the time of each message from its body to the other process's decrypted copy, one in flight."""
    folder.mkdir(parents=True)
    session = Ours()
    (folder / "alice").write_bytes(encode_ratchet(session.alice))
    (folder / "bob").write_bytes(encode_ratchet(session.bob))
    processes = [_started("relay", folder)]
    try:
        port = int(_line(processes[0]))
        processes.append(recipient := _started("receive", folder, port, messages))
        _line(recipient)
        processes.append(_started("send", folder, port, messages))
        taken: list[float] = json.loads(_line(recipient))
    finally:
        for each in processes:
            each.kill()
            each.communicate()
    return taken


def main(argv: list[str]) -> None:
    role, folder, *numbers = argv
    if role == "relay":
        asyncio.run(relay(Path(folder)))
    else:
        port, count = map(int, numbers)
        asyncio.run((send if role == "send" else receive)(Path(folder), port, count))


if __name__ == "__main__":
    main(sys.argv[1:])
