"""What waiting costs: a thousand connected recipients at one node, and one client that is connected."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.end_to_end_actors import Part
from bench.end_to_end_stage import Stage, processor_s, resident_mb, staged
from bench.results import Table, bar
from restante.client.relay.connector import connect_by_tls
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.ports.relay_connection import RelayConnection

RECIPIENTS: Final = 1_000
AT_ONCE: Final = 50
WATCHED_S: Final = 30.0
MAX_NODE_MB: Final = 300
MAX_NODE_SHARE: Final = 0.02
MAX_CLIENT_MB: Final = 60
MAX_CLIENT_SHARE: Final = 0.005

BARE: Final = """
import apsw, asyncio, cryptography.hazmat.bindings._rust, google.protobuf.message, ssl, sqlite3, sys
print(flush=True)
sys.stdin.read()
"""
"""An interpreter with the libraries that a client imports, and nothing of ours."""


async def used_share(pid: int) -> float:
    before = processor_s(pid)
    await asyncio.sleep(WATCHED_S)
    return (processor_s(pid) - before) / WATCHED_S


async def crowd(stage: Stage) -> list[RelayConnection]:
    links: list[RelayConnection] = []
    readers = [Identity((b"reader %d" % number).ljust(32)) for number in range(RECIPIENTS)]
    for start in range(0, RECIPIENTS, AT_ONCE):
        links += await asyncio.gather(
            *(connect_by_tls(stage.relay.address, OwnInbox(reader)) for reader in readers[start : start + AT_ONCE])
        )
    return links


def bare_mb() -> float:
    with subprocess.Popen([sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = resident_mb(process.pid)
        process.communicate()
    return held


async def idle(folder: Path, _messages: int, results: list[Table]) -> None:
    table = Table("Idle, connected, no mail", ["what", "memory MB", "processor", "bar"])
    async with staged(folder / "crowd") as stage:
        links = await crowd(stage)
        await asyncio.sleep(2)
        share, held = await used_share(stage.relay.pid), resident_mb(stage.relay.pid)
        passed = bar(held <= MAX_NODE_MB and share <= MAX_NODE_SHARE, "at most 300 MB and 2 %")
        table.add([f"node with {RECIPIENTS:,} recipients", f"{held:,.0f}", f"{share:.2%}", passed])
        for link in links:
            await link.close()
    async with staged(folder / "one") as stage:
        await stage.introduce([("alice", "bob")])
        client = await stage.start(Part(role="receive", homes=[stage.home("bob")]))
        await asyncio.sleep(2)
        share, above = await used_share(client.pid), resident_mb(client.pid) - bare_mb()
        passed = bar(above <= MAX_CLIENT_MB and share <= MAX_CLIENT_SHARE, "at most 60 MB and 0.5 %")
        table.add(["client, above a bare interpreter with its libraries", f"{above:,.0f}", f"{share:.2%}", passed])
    results.append(table)
