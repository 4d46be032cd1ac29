"""The node under measurement, in a process of its own: says its port, works until its standard input ends."""

import asyncio
import sys
from pathlib import Path
from typing import Final

from restante.crypto.identity import Identity
from restante.node.gc_tuning import tune_garbage_collector
from restante.node.relay import Relay
from restante.policy.quota import MailboxQuota
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.file.wal_checkpointer import Checkpoints
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy

NODE: Final = Identity(b"bench node".ljust(32))
LIFTED: Final = Settings(
    mailbox=MailboxQuota(max_blobs=10_000_000, max_bytes=100_000_000_000),
)


async def serve(folder: Path) -> None:
    database = Database(folder / "node.db", schema="node")
    store = SqliteMailbox(database, Journal(database, SystemEntropy()), tag_secret=NODE.tag_secret)
    commits = GroupCommit(database)
    checkpoints = Checkpoints(database, schema="node")
    relay = Relay(NODE, store, commits=commits, settings=LIFTED, clock=SystemClock(), entropy=SystemEntropy())
    server = await relay.listen("127.0.0.1", 0)
    tune_garbage_collector()  # as the daemon does
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    await relay.stop()
    commits.close()
    checkpoints.close()
    store.close()
    database.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
