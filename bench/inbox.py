"""What the receiving side costs once a message is open: verdict, order, storage, receipt owed and two facts, durable.

1 KiB messages of four sessions, in order. Bare SQLite writes the same rows with `executemany` and decides nothing: the
limit, since ours writes them, too. CPU time is of this process alone, so other work on the machine disturbs it less.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import apsw

from bench.measure import ratio_line, take_turns
from restante.core.decrypted_messages import DecryptedMessage
from restante.crypto.storage_seal import StorageSeal
from restante.model.ids import Address, PayloadHash, SessionId, mint_message_id
from restante.model.kinds import Kind, TtlType
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.inbox.store import SqliteInbox
from restante.runtime.system import SystemEntropy
from restante.wire.ttl_header import TtlHeader

ARRIVALS = 6_400
SESSIONS = 4
BATCH = 64
ROUNDS = 5
NOW_MS = 1_800_000_000_000


def opened(number: int) -> DecryptedMessage:
    who = bytes([number % SESSIONS]) * 32
    return DecryptedMessage(
        header=TtlHeader(created_at_ms=NOW_MS, ttl_s=86_400, ttl_type=TtlType.ABSOLUTE),
        message_id=mint_message_id(os.urandom(16)),
        sender=Address(who),
        session_id=SessionId(who),
        sequence=number // SESSIONS,
        kind=Kind.TEXT,
        body=os.urandom(1_024),
        payload_hash=PayloadHash(os.urandom(32)),
        envelope_bytes=1_696,
    )


LETTERS = [opened(number) for number in range(ARRIVALS)]


def receive(directory: Path, batch_size: int, letters: Sequence[DecryptedMessage]) -> None:
    database, entropy = Database(directory / "ours.db", schema="client"), SystemEntropy()
    inbox = SqliteInbox(
        database,
        Journal(database, entropy),
        Settings(),
        seal=StorageSeal(bytes(32)),
        entropy=entropy,
        tag_secret=bytes(32),
    )
    for start in range(0, len(letters), batch_size):
        with inbox.batch(now_ms=NOW_MS) as batch:
            for one in letters[start : start + batch_size]:
                batch.receive_decrypted(one, server_timestamp_ms=NOW_MS)
        inbox.take_changes()
    database.close()


def write_bare(directory: Path, batch_size: int, letters: Sequence[DecryptedMessage]) -> None:
    path = directory / "bare.db"
    Database(path, schema="client").close()
    connection = apsw.Connection(str(path))
    connection.pragma("synchronous", "full")
    seen, owed, inbox, journal = (load_queries(name) for name in ("seen", "owed_acks", "inbox", "journal"))
    nothing, kind = (None,) * 3, str(Kind.TEXT)
    for start in range(0, len(letters), batch_size):
        part = list(enumerate(letters[start : start + batch_size], start=start + 1))
        with connection:
            connection.execute(seen["find_many"], (json.dumps([at for at, _ in part]),)).fetchall()
            connection.executemany(
                seen["remember"], [(hash(one.payload_hash), at, bytes(40), 1, 1) for at, one in part]
            )
            connection.executemany(owed["owe"], [(at, 2, one.sender, one.message_id, 1) for at, one in part])
            connection.executemany(
                inbox["add_message"],
                [(at, at, 1, at, one.message_id, kind, 0, 0, 1, 1, 1, at, one.body) for at, one in part],
            )
            for fact in ("arrived", "released"):
                rows = [
                    (1, fact, one.message_id, bytes(16), at, one.payload_hash, 1, kind, *nothing, None, None, 1)
                    for at, one in part
                ]
                connection.executemany(journal["append_fact"], rows)
    connection.close()


def main() -> None:
    cpu_us: dict[str, list[float]] = {}

    def contender(
        name: str, work: Callable[[Path, int, Sequence[DecryptedMessage]], None], batch_size: int, count: int
    ) -> Callable[[], int]:
        def run() -> int:
            with tempfile.TemporaryDirectory() as directory:
                start = time.process_time()
                work(Path(directory), batch_size, LETTERS[:count])
                cpu_us.setdefault(name, []).append((time.process_time() - start) / count * 1e6)
            return count

        return run

    contenders = {
        "bare rows, batches of 64": contender("bare rows, batches of 64", write_bare, BATCH, ARRIVALS),
        "arrivals, batches of 64": contender("arrivals, batches of 64", receive, BATCH, ARRIVALS),
        "arrivals, batches of 256": contender("arrivals, batches of 256", receive, 256, ARRIVALS),
        "arrivals, one by one": contender("arrivals, one by one", receive, 1, 800),
    }
    measured = take_turns(contenders, rounds=ROUNDS)
    print("Receiving 1 KiB messages, opened, in order, durable")
    bare, *ours = measured.values()
    for one in ours:
        print(ratio_line(one, bare))
    for name, times in cpu_us.items():
        print(f"  {name:<34} {median(times):>10.1f} µs of CPU each (best round {min(times):.1f})")


if __name__ == "__main__":
    main()
