"""A thousand idle connections at one relay process, and what they cost it."""

import asyncio
import json
import sys
from pathlib import Path

from restante.ports.relay_connection import AttemptFailed
from restante.runtime.identity_files import create_identity
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from support.spec.clauses import clause

LOOPBACK = "127.0.0.1"
CROWD = 1_000  # SPEC 6.8
AT_ONCE = 50
MOST_MB = 300
SOON_S = 120.0


def resident_mb(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1_024


@clause("6.8")
async def test_a_thousand_idle_connections_fit_in_300_mb_and_one_more_is_turned_away(tmp_path: Path) -> None:
    node = create_identity(tmp_path / "identity", SystemEntropy())
    part = {"role": "relay", "home": str(tmp_path), "segments": str(tmp_path / "segments")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "restante.cli.demo.processes",
        json.dumps(part),
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
            try:
                await TlsRelayConnection.connect(LOOPBACK, port, node=node.node_key)
            except AttemptFailed:
                pass
            else:
                raise AssertionError("the relay took one more than it may")
            await links[0].ping()
            await links[-1].ping()
            assert resident_mb(process.pid) < MOST_MB
    finally:
        for link in links:
            await link.close()
        process.kill()
        await process.communicate()
