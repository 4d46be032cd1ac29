"""Runs the demo: starts the actors, kills the relay in the middle, and sees every process to its end."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from restante.cli.demo.processes import LOOPBACK, Part, message_text
from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.errors import EnvironmentUnsuitable
from restante.model.places import RelayPlace
from restante.ports.entropy import Entropy
from restante.runtime.identity_files import create_identity

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
LIMIT_S: Final = 60.0  # with a share for each message on top: a demo that hangs is a failed demo
LIMIT_PER_MESSAGE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the application on each side saw."""

    accepted: int
    received: int
    in_order_once_each: bool
    relay_kills: int
    faults: dict[str, int]
    segments: Path


class _Actor:
    """One process and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, role: str) -> None:
        self._process = process
        self._role = role

    async def hear(self, event: str) -> dict[str, Any]:
        """The next line that says `event`; others are passed over."""
        async for line in self.lines():
            if line["event"] == event:
                return line
        raise self.died()

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        if self._process.stdout is None:
            raise self.died()
        while raw := await self._process.stdout.readline():
            yield json.loads(raw)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    def ask_to_stop(self) -> None:
        self._process.terminate()

    async def ended(self) -> None:
        if await self._process.wait() != 0:
            raise self.died()

    async def clear_away(self) -> None:
        if self._process.returncode is None:
            await self.kill()

    def died(self) -> EnvironmentUnsuitable:
        return EnvironmentUnsuitable(f"the {self._role} ended before its part was over; its last output is above")


async def perform(
    home: Path, *, messages: int, seed: int, entropy: Entropy, on_received: Callable[[int], None]
) -> Outcome:
    """Two clients and a relay; the relay is killed with SIGKILL once a third has arrived, and started again."""
    limit_s = LIMIT_S + messages * LIMIT_PER_MESSAGE_S
    try:
        async with asyncio.timeout(limit_s):
            return await _perform(home, messages=messages, seed=seed, entropy=entropy, on_received=on_received)
    except TimeoutError:
        raise EnvironmentUnsuitable(f"the demo was not over after {limit_s:.0f} s and was stopped") from None


async def _perform(
    home: Path, *, messages: int, seed: int, entropy: Entropy, on_received: Callable[[int], None]
) -> Outcome:
    segments = home / "segments"
    node = create_identity(home / "relay" / "identity", entropy).node_key
    common: dict[str, Any] = {"segments": str(segments), "messages": messages}
    async with contextlib.AsyncExitStack() as stage:
        relay = await _enter(stage, Part(role="relay", home=str(home / "relay"), **common))
        common["port"] = (await relay.hear("listening"))["port"]
        place = RelayPlace(node_key=node, host=LOOPBACK, port=common["port"])
        await _introduce(home, ("alice", "bob"), place, entropy)
        alice = await _enter(stage, _client_part("sender", home, "alice", "bob", seed=seed, **common))
        bob = await _enter(stage, _client_part("receiver", home, "bob", "alice", seed=seed + 1, **common))
        await _until_received(bob, messages // 3, on_received)
        await relay.kill()
        relay = await _enter(stage, Part(role="relay", home=str(home / "relay"), **common))
        await _until_received(bob, messages, on_received)
        sender = await alice.hear("done")
        await alice.ended()
        bob.ask_to_stop()
        receiver = await bob.hear("done")
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


async def _introduce(home: Path, names: tuple[str, str], relay: RelayPlace, entropy: Entropy) -> None:
    """Two new clients that have each other's cards and prekeys."""
    for name in names:
        ClientDirectory(home / name).create(relay, entropy)
    clients = {name: Client.open(home / name) for name in names}
    for name, peer in (names, names[::-1]):
        clients[name].contacts.add(replace(await clients[peer].as_contact(), name=peer))
    for client in clients.values():
        await client.close()


def _client_part(role: str, home: Path, name: str, peer: str, *, seed: int, **common: Any) -> Part:
    return Part(role=role, home=str(home / name), peer=peer, seed=seed, **common)


async def _until_received(receiver: _Actor, count: int, on_received: Callable[[int], None]) -> None:
    async for line in receiver.lines():
        if line["event"] == "progress":
            on_received(line["received"])
            if line["received"] >= count:
                return
    raise receiver.died()


async def _enter(stage: contextlib.AsyncExitStack, part: Part) -> _Actor:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "restante.cli.demo.processes",
        json.dumps(asdict(part)),
        stdin=asyncio.subprocess.PIPE,  # never written to: its end tells the actor that the stage is gone
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,  # Ctrl-C is for the stage, which then clears its actors away
    )
    actor = _Actor(process, part.role)
    stage.push_async_callback(actor.clear_away)
    return actor
