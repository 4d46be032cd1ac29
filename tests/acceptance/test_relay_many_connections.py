"""A thousand idle connections at one relay process, and what they cost it."""

import asyncio
import json
import os
from pathlib import Path

from restante.runtime.identity_files import create_identity
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from support.relay import relay_process
from support.spec.clauses import clause
from support.system.programs import command

LOOPBACK = "127.0.0.1"
CROWD = 1_000
AT_ONCE = 50
MOST_MB = 300
MOST_SHARE = 0.02  # of a core
IDLE_S = 5.0
SOON_S = 120.0


def resident_mb(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1_024


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@clause("6.8")
async def test_a_thousand_idle_connections_fit_in_300_mb_and_2_percent_of_a_core(tmp_path: Path) -> None:
    node = create_identity(tmp_path / "identity", SystemEntropy())
    process = await asyncio.create_subprocess_exec(
        *command(relay_process),
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    links: list[TlsRelayConnection] = []
    try:
        async with asyncio.timeout(SOON_S):
            assert process.stdout is not None
            port = json.loads(await process.stdout.readline())["port"]
            while len(links) < CROWD:
                links += await asyncio.gather(
                    *(TlsRelayConnection.connect(LOOPBACK, port, node=node.node_key) for _ in range(AT_ONCE))
                )
            await links[0].ping()
            await links[-1].ping()
            assert resident_mb(process.pid) < MOST_MB
            before_s = processor_s(process.pid)
            await asyncio.sleep(IDLE_S)  # not a wait for something: the cost of doing nothing is measured
            assert processor_s(process.pid) - before_s <= MOST_SHARE * IDLE_S
    finally:
        for link in links:
            await link.close()
        process.kill()
        await process.communicate()
