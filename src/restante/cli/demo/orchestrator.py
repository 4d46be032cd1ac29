"""Run the demo: two clients and a relay, first in a loop while the relay is killed, then over a lossy network."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from restante.cli.demo.processes import LOOPBACK, SINGLE_MESSAGES, ProcessConfig
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
class LoopOutcome:
    """What became of messages that were sent in a loop, and of some that were sent one by one afterwards."""

    sent: int
    received: int
    in_order_once_each: bool
    evicted: int
    relay_away_ms: int
    messages_per_s: float
    latencies_ms: list[float]
    single_latencies_ms: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result that the applications of both sides report. `loop` is the first part, the rest the lossy one."""

    loop: LoopOutcome
    sent: int
    received: int
    in_order_once_each: bool
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """How much is sent in each part, and who is told of arrivals."""

    home: Path
    loop_messages: int
    lossy_messages: int
    seed: int
    on_received: Callable[[int], None]


async def run_demo(demo: Demo, entropy: Entropy) -> Outcome:
    """Run two clients and a relay, in two parts."""
    limit_s = LIMIT_S + (demo.loop_messages + demo.lossy_messages) * LIMIT_PER_MESSAGE_S
    try:
        async with asyncio.timeout(limit_s), contextlib.AsyncExitStack() as stack:
            return await _run_demo(demo, entropy, stack)
    except TimeoutError:
        raise EnvironmentUnsuitable(f"the demo did not end within {limit_s:.0f} s and was stopped") from None


async def _run_demo(demo: Demo, entropy: Entropy, stack: contextlib.AsyncExitStack) -> Outcome:
    node = create_identity(demo.home / "relay" / "identity", entropy).node_key
    segments = demo.home / "segments"
    relay_config = ProcessConfig(role="relay", home=str(demo.home / "relay"), segments=str(segments))
    relay = await _start(stack, relay_config)
    port: int = (await relay.wait_for("listening"))["port"]
    await _exchange_contacts(demo.home, ("alice", "bob"), RelayPlace(node_key=node, host=LOOPBACK, port=port), entropy)
    relay_config = replace(relay_config, port=port)
    alice, bob = await _start_clients(stack, demo, relay_config, messages=demo.loop_messages, is_lossy=False)
    await _until_received(bob, demo.loop_messages // 3, demo.on_received)
    await relay.kill()
    killed_s = asyncio.get_running_loop().time()
    relay = await _start(stack, relay_config)
    await relay.wait_for("listening")
    away_s = asyncio.get_running_loop().time() - killed_s
    loop_ends = await _ends(alice, bob, demo.loop_messages + SINGLE_MESSAGES, demo.on_received)

    alice, bob = await _start_clients(stack, demo, relay_config, messages=demo.lossy_messages, is_lossy=True)
    received_before = demo.loop_messages + SINGLE_MESSAGES
    sender, receiver = await _ends(
        alice, bob, demo.lossy_messages, lambda count: demo.on_received(received_before + count)
    )
    relay.ask_to_stop()
    await relay.ended()
    return Outcome(
        loop=_loop_outcome(*loop_ends, messages=demo.loop_messages, away_s=away_s),
        sent=demo.lossy_messages,
        received=len(receiver["numbers"]),
        in_order_once_each=receiver["numbers"] == list(range(demo.lossy_messages)),
        faults={name: sender["faults"][name] + receiver["faults"][name] for name in sender["faults"]},
        segments=segments,
    )


def _loop_outcome(sender: dict[str, Any], receiver: dict[str, Any], *, messages: int, away_s: float) -> LoopOutcome:
    sent_ns, arrived_ns = receiver["sent_ns"], receiver["arrived_ns"]
    latencies_ms = [(arrived - sent) / 1e6 for sent, arrived in zip(sent_ns, arrived_ns, strict=True)]
    return LoopOutcome(
        sent=messages + SINGLE_MESSAGES,
        received=len(receiver["numbers"]),
        in_order_once_each=receiver["numbers"] == list(range(messages + SINGLE_MESSAGES)),
        evicted=sender["evicted"],
        relay_away_ms=round(away_s * 1_000),
        messages_per_s=messages / ((arrived_ns[messages - 1] - sender["began_ns"]) / 1e9 - away_s),
        latencies_ms=latencies_ms[:messages],
        single_latencies_ms=latencies_ms[messages:],
    )


async def _start_clients(
    stack: contextlib.AsyncExitStack, demo: Demo, relay: ProcessConfig, *, messages: int, is_lossy: bool
) -> tuple[_Process, _Process]:
    """Start alice, who sends, and bob, who receives."""
    sender = replace(
        relay,
        role="sender",
        home=str(demo.home / "alice"),
        peer="bob",
        seed=demo.seed,
        messages=messages,
        is_lossy=is_lossy,
    )
    receiver = replace(sender, role="receiver", home=str(demo.home / "bob"), peer="alice", seed=demo.seed + 1)
    return await _start(stack, sender), await _start(stack, receiver)


async def _ends(
    alice: _Process, bob: _Process, messages: int, on_received: Callable[[int], None]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Wait until everything arrived and was receipted; return what sender and receiver report."""
    await _until_received(bob, messages, on_received)
    sender = await alice.wait_for("done")
    await alice.ended()
    bob.ask_to_stop()
    receiver = await bob.wait_for("done")
    await bob.ended()
    return sender, receiver


async def _exchange_contacts(home: Path, names: tuple[str, str], relay: RelayPlace, entropy: Entropy) -> None:
    """Create two clients and give each the contact file of the other."""
    for name in names:
        ClientDirectory(home / name).create(relay, entropy)
    clients = {name: Client.open(home / name) for name in names}
    for name, peer in (names, names[::-1]):
        clients[name].contacts.add(replace(await clients[peer].as_contact(), name=peer))
    for client in clients.values():
        await client.close()


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
