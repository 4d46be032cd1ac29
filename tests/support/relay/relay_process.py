"""A relay and nothing else in a process, to be killed: `python relay_process.py DIR`, whose identity is in DIR.

It prints its port as a line of JSON, and ends with its parent.
"""

import asyncio
import json
import sys
from pathlib import Path

from restante.model.node_descriptor import Role
from restante.node.relay import Relay
from restante.policy.settings import Settings
from restante.runtime.identity_files import load_identity
from restante.runtime.journal.node_identity import append_node_started
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.inbox_keys import node_id_of

LOOPBACK = "127.0.0.1"


async def run(home: Path) -> None:
    identity = load_identity(home / "identity")
    database = Database(home / "node.db", schema="node")
    journal = Journal(database, SystemEntropy())
    store = SqliteMailbox(database, journal, tag_secret=identity.tag_secret)
    node_id = node_id_of(identity.node_key)
    append_node_started(database, journal, node_id, roles=Role.MAILBOX, now_ms=SystemClock().now_ms())
    commits = GroupCommit(database)
    relay = Relay(identity, store, commits=commits, settings=Settings(), clock=SystemClock(), entropy=SystemEntropy())
    server = await relay.listen(LOOPBACK, 0)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # closed even if the parent is killed


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
