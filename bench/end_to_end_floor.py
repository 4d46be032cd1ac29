"""What one message cannot cost less than: three syncs of an appended page and the cryptography it needs.

Beside it Redis Streams with `appendfsync always`: one process adds, another reads, nothing is encrypted.
"""

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.crypto import ALICE, BOB, BOUND, Ours
from restante.crypto.identity import is_signed_by
from restante.crypto.ratchet import ENCRYPT_ENTROPY_BYTES, decrypt, encrypt
from restante.crypto.sealing import seal, unseal
from restante.crypto.storage_seal import StorageSeal

PAGE: Final = bytes(4_096)
SYNCS: Final = 3  # accepted at the sender, stored at the relay, received at the recipient
TIMES: Final = 300
BODY: Final = bytes(1_024)
PADDED: Final = bytes(4_096)
NOW_MS: Final = 1_800_000_000_000
LOOPBACK: Final = "127.0.0.1"
REDIS_SETTINGS: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
ANSWER_LINES: Final = 13
ID_LINE: Final = 7


def median_us(work: Callable[[], object], times: int = TIMES) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter_ns()
        work()
        taken.append(time.perf_counter_ns() - start)
    return statistics.median(taken) / 1_000


def sync_us(folder: Path) -> float:
    """Return the median time to append a page to a file and have it on disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        number = file.fileno()

        def append() -> None:
            os.write(number, PAGE)
            os.fdatasync(number)

        return median_us(append)


def crypto_us() -> dict[str, float]:
    """Return the median time of each cryptographic step of one message, from `send` to the recipient's inbox."""
    session = Ours()
    sealed = seal(PADDED, BOB.card)
    at_rest = StorageSeal(ALICE.storage_key)
    kept = at_rest.seal(BODY, nonce=os.urandom(12), context=b"bench")
    signature = ALICE.sign(BODY)
    record, nonce = AESGCM(os.urandom(32)), os.urandom(12)

    def ratchet() -> None:
        session.alice, message = encrypt(session.alice, BODY, BOUND, entropy=os.urandom(ENCRYPT_ENTROPY_BYTES))
        session.bob, _ = decrypt(session.bob, message, BOUND, now_ms=NOW_MS)

    return {
        "outer seal": median_us(lambda: seal(PADDED, BOB.card)),
        "outer unseal": median_us(lambda: unseal(sealed, BOB)),
        "ratchet, both ends": median_us(ratchet),
        "storage seal, twice": 2 * median_us(lambda: at_rest.seal(BODY, nonce=nonce, context=b"bench")),
        "storage unseal": median_us(lambda: at_rest.unseal(kept, context=b"bench")),
        "storage receipt, signed": median_us(lambda: ALICE.sign(BODY)),
        "storage receipt, verified": median_us(lambda: is_signed_by(ALICE.address, signature, BODY)),
        "TLS records, four": 4 * median_us(lambda: record.encrypt(nonce, sealed, None)),
    }


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    process = subprocess.Popen(
        [_redis(), "--port", str(port), "--bind", LOOPBACK, "--dir", str(folder), *REDIS_SETTINGS],
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(100):
            try:
                socket.create_connection((LOOPBACK, port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def _entry_id(answers: BinaryIO) -> bytes:
    """Read the answer to XREAD with one entry of one field; return the entry's id."""
    lines = [answers.readline().rstrip(b"\r\n") for _ in range(ANSWER_LINES)]
    return lines[ID_LINE]


def _redis() -> str:
    return shutil.which("redis-server") or "redis-server"


def redis_latencies_us(folder: Path, messages: int) -> list[float] | None:
    """Return the time of each message from XADD called to XREAD returned, one in flight; None without Redis."""
    if shutil.which("redis-server") is None:
        return None
    with redis_server(folder) as port:
        writer = socket.create_connection((LOOPBACK, port))
        reader = socket.create_connection((LOOPBACK, port))
        for line in (writer, reader):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received_ns: list[int] = []
        turn = threading.Semaphore(0)

        def read() -> None:
            last = b"0"
            with reader.makefile("rb") as answers:
                for _ in range(messages):
                    reader.sendall(b"XREAD COUNT 1 BLOCK 0 STREAMS s %s\r\n" % last)
                    last = _entry_id(answers)
                    received_ns.append(time.monotonic_ns())
                    turn.release()

        thread = threading.Thread(target=read)
        thread.start()
        sent_ns = []
        body = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nd\r\n$%d\r\n%s\r\n" % (len(BODY), BODY)
        with writer.makefile("rb") as answers:
            for _ in range(messages):
                sent_ns.append(time.monotonic_ns())
                writer.sendall(body)
                answers.readline()
                answers.readline()
                turn.acquire()
        thread.join()
        for line in (writer, reader):
            line.close()
    return [(got - sent) / 1_000 for sent, got in zip(sent_ns, received_ns, strict=True)]
