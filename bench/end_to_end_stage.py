"""The relay and the clients of the end-to-end benchmark as real processes, with default settings, on loopback."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.end_to_end_actors import Part
from restante.cli.node.config_template import node_toml
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.places import RelayPlace
from restante.runtime.node_home import NodeDirectory
from restante.runtime.system import SystemEntropy

LOOPBACK: Final = "127.0.0.1"
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
START_S: Final = 60.0
STALL_S: Final = 150.0
"""A process that says nothing for so long has stopped making progress; settling is allowed 120 s."""


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1_024


class RelayProcess:
    """`restante node run` with a port that stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
        text = node_toml(listen=f"{LOOPBACK}:{port}", status=f"{LOOPBACK}:0")
        identity = NodeDirectory(folder / "node").create(text, SystemEntropy())
        self.address = RelayPlace(node_key=identity.node_key, host=LOOPBACK, port=port)
        self._folder = folder
        self._start()
        self._used_s = -processor_s(self.pid)

    def _start(self) -> None:
        notify = self._folder / "notify"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
            heard.bind(str(notify))
            heard.settimeout(START_S)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "restante", "node", "run", str(self._folder / "node")],
                env={**os.environ, "NOTIFY_SOCKET": str(notify)},
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            heard.recv(64)

    @property
    def pid(self) -> int:
        return self._process.pid

    def processor_s(self) -> float:
        """Return what it has used since it was first ready, over all restarts."""
        return self._used_s + processor_s(self._process.pid)

    def kill_and_restart(self) -> None:
        self._used_s = self.processor_s()
        self._process.kill()
        self._process.wait()
        self._start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Actor:
    """One process of bench.end_to_end_actors and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._started_s = 0.0
        self.seen: dict[str, Any] = {}

    @classmethod
    async def started(cls, part: Part) -> "Actor":
        actor = cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "bench.end_to_end_actors",
                part.as_text(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=MAX_LINE_BYTES,
            )
        )
        await actor.until("ready", 1)
        actor._started_s = processor_s(actor.pid)
        return actor

    @property
    def pid(self) -> int:
        return self._process.pid

    def processor_s(self) -> float:
        """Return what it has used since it was ready."""
        return processor_s(self.pid) - self._started_s

    async def until(self, key: str, least: int) -> Any:
        """Read until it has said `key` with a number of at least `least`, or a value that is none."""
        assert self._process.stdout is not None
        while True:
            value = self.seen.get(key)
            if value is not None and (not isinstance(value, int) or value >= least):
                return value
            async with asyncio.timeout(STALL_S):
                line = await self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"a process of the benchmark ended before it said {key} {least}")
            self.seen.update(json.loads(line))

    async def finish(self) -> dict[str, int]:
        """Let it settle and end; return the final states of the messages that it accepted."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found: dict[str, int] = await self.until("states", 0)
        await self._process.wait()
        return found

    async def end(self) -> None:
        """End it at once, whatever it is doing."""
        self.kill()
        await self._process.communicate()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)


class Stage:
    """A relay, the directories of clients that know each other, and the processes started so far."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder.resolve()
        self.relay = RelayProcess(self.folder)
        self._actors: list[Actor] = []

    def home(self, name: str) -> str:
        return str(self.folder / name)

    async def introduce(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Create the clients that are named and let each pair have each other as contacts.

        Contacts have the base bundle, as the mesh serves it: two senders who draw the same one-time prekey from copies
        of one contact file would measure how a session recovers.
        """
        names = sorted({name for pair in pairs for name in pair})
        for name in names:
            ClientDirectory(self.folder / name).create(self.relay.address, SystemEntropy())
        clients = {name: Client.open(self.folder / name) for name in names}
        for one, other in pairs:
            for owner, peer in ((one, other), (other, one)):
                bundle = await clients[peer].own_keys.bundle(has_one_time=False)
                contact = replace(await clients[peer].as_contact(), name=peer, bundle=bundle)
                clients[owner].contacts.add(contact)
        for client in clients.values():
            await client.close()

    async def start(self, part: Part) -> Actor:
        actor = await Actor.started(part)
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        for actor in self._actors:
            actor.kill()
        self.relay.stop()


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    stage = Stage(folder)
    try:
        yield stage
    finally:
        stage.close()
