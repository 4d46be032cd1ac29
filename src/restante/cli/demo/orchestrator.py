"""Run the demo: start three processes, kill the relay once, and stop every process at the end."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from restante.cli.demo.processes import LOOPBACK, ProcessConfig, message_text
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.errors import EnvironmentUnsuitable
from restante.model.places import RelayPlace
from restante.ports.entropy import Entropy
from restante.runtime.identity_files import create_identity

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
LIMIT_S: Final = 60.0  # plus a share for each message; a demo that takes longer has failed
LIMIT_PER_MESSAGE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result that the applications of both sides report."""

    accepted: int
    received: int
    in_order_once_each: bool
    relay_kills: int
    faults: dict[str, int]
    segments: Path


class _Process:
    """One process of the demo and the JSON lines that it prints."""

    def __init__(self, process: asyncio.subprocess.Process, role: str) -> None:
        self._process = process
        self._role = role

    async def wait_for(self, event: str) -> dict[str, Any]:
        """Return the next line of this event. Other lines are skipped."""
        async for line in self.lines():
            if line["event"] == event:
                return line
        raise self.failure()

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        if self._process.stdout is None:
            raise self.failure()
        while raw := await self._process.stdout.readline():
            yield json.loads(raw)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    async def ended(self) -> None:
        if await self._process.wait() != 0:
            raise self.failure()

    async def kill_if_running(self) -> None:
        if self._process.returncode is None:
            await self.kill()

    def failure(self) -> EnvironmentUnsuitable:
        return EnvironmentUnsuitable(f"the {self._role} of the demo ended early; its last output is above")


async def run_demo(
    home: Path, *, messages: int, seed: int, entropy: Entropy, on_received: Callable[[int], None]
) -> Outcome:
    """Run two clients and a relay. Kill the relay once a third of the messages has arrived, and start it again."""
    limit_s = LIMIT_S + messages * LIMIT_PER_MESSAGE_S
    try:
        async with asyncio.timeout(limit_s):
            return await _run_demo(home, messages=messages, seed=seed, entropy=entropy, on_received=on_received)
    except TimeoutError:
        raise EnvironmentUnsuitable(f"the demo did not end within {limit_s:.0f} s and was stopped") from None


async def _run_demo(
    home: Path, *, messages: int, seed: int, entropy: Entropy, on_received: Callable[[int], None]
) -> Outcome:
    segments = home / "segments"
    node = create_identity(home / "relay" / "identity", entropy).node_key
    common: dict[str, Any] = {"segments": str(segments), "messages": messages}
    async with contextlib.AsyncExitStack() as stack:
        relay = await _start(stack, ProcessConfig(role="relay", home=str(home / "relay"), **common))
        common["port"] = (await relay.wait_for("listening"))["port"]
        place = RelayPlace(node_key=node, host=LOOPBACK, port=common["port"])
        await _exchange_contacts(home, ("alice", "bob"), place, entropy)
        alice = await _start(stack, _client_config("sender", home, "alice", "bob", seed=seed, **common))
        bob = await _start(stack, _client_config("receiver", home, "bob", "alice", seed=seed + 1, **common))
        await _until_received(bob, messages // 3, on_received)
        await relay.kill()
        relay = await _start(stack, ProcessConfig(role="relay", home=str(home / "relay"), **common))
        await _until_received(bob, messages, on_received)
        sender = await alice.wait_for("done")
        await alice.ended()
        bob.ask_to_stop()
        receiver = await bob.wait_for("done")
        await bob.ended()
        relay.ask_to_stop()
        await relay.ended()
    expected = [message_text(number).decode() for number in range(messages)]
    return Outcome(
        accepted=sender["accepted"],
        received=len(receiver["bodies"]),
        in_order_once_each=receiver["bodies"] == expected,
        relay_kills=1,
        faults={name: sender["faults"][name] + receiver["faults"][name] for name in sender["faults"]},
        segments=segments,
    )


async def _exchange_contacts(home: Path, names: tuple[str, str], relay: RelayPlace, entropy: Entropy) -> None:
    """Create two clients and give each the contact file of the other."""
    for name in names:
        ClientDirectory(home / name).create(relay, entropy)
    clients = {name: Client.open(home / name) for name in names}
    for name, peer in (names, names[::-1]):
        clients[name].contacts.add(replace(await clients[peer].as_contact(), name=peer))
    for client in clients.values():
        await client.close()


def _client_config(role: str, home: Path, name: str, peer: str, *, seed: int, **common: Any) -> ProcessConfig:
    return ProcessConfig(role=role, home=str(home / name), peer=peer, seed=seed, **common)


async def _until_received(receiver: _Process, count: int, on_received: Callable[[int], None]) -> None:
    async for line in receiver.lines():
        if line["event"] == "progress":
            on_received(line["received"])
            if line["received"] >= count:
                return
    raise receiver.failure()


async def _start(stack: contextlib.AsyncExitStack, config: ProcessConfig) -> _Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "restante.cli.demo.processes",
        json.dumps(asdict(config)),
        stdin=asyncio.subprocess.PIPE,  # never written to: the process ends when this pipe is closed
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,  # Ctrl-C reaches only this process, which then kills the others
    )
    started = _Process(process, config.role)
    stack.push_async_callback(started.kill_if_running)
    return started
