"""Processes that deliver five chunks and kill themselves with SIGKILL at a step of it.

Run as `python killed_process.py <directory> <api> <victim>...`; a victim is `step-chunk`, such as `accepted-2`, and
its file is <directory>/<victim>.db. One process loads everything and forks the victims, so that many cost little. It
says how each ended.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from restante.client.channels import ChannelMessage, Channels, ChunkEnd
from restante.core.channel_delivery import ChunkState
from restante.model.ids import MessageId
from restante.policy.capacity import OutboxLimits
from restante.policy.channel_rate_limit import ChannelLimits
from restante.policy.settings import Settings
from restante.ports.channel_adapter import Outgoing, PlatformAck
from restante.runtime.channels.adapters.telegram import TelegramAdapter
from restante.runtime.channels.channel_config import Registered
from restante.runtime.channels.secret import Secret
from restante.runtime.sqlite.outbox.chunk_state import ChannelProgress
from support.channels.fixtures import StillDice, long_text

CHUNKS = 5
HURRIED = Settings(outbox=OutboxLimits(lease_ms=3_000))
"""Of the victims: what they had claimed is free soon after. Who comes after them may take its time."""

STEPS = ("leased", "marked", "accepted", "ended")
"""Claimed but not marked; marked but not sent; taken by the platform but not ended here; ended."""

VICTIMS = ("queued-0", *(f"{step}-{chunk}" for step in STEPS for chunk in range(CHUNKS)))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingTelegram(TelegramAdapter):
    """Dies before or after its n-th message."""

    def __init__(self, *, token: Secret, api: str, step: str, chunk: int) -> None:
        super().__init__(token=token, api=api)
        self._dies = (step, chunk)

    async def send(self, message: Outgoing) -> PlatformAck:
        if self._dies == ("marked", message.index):
            die()
        taken = await super().send(message)
        if self._dies == ("accepted", message.index):
            die()
        return taken


def die_when_claimed(chunk: int) -> None:
    """Before the mark: when the progress of the n-th chunk is asked for."""
    load = ChannelProgress.load
    asked: list[MessageId] = []

    def counting(self: ChannelProgress, message_id: MessageId) -> ChunkState:
        asked.append(message_id)
        if len(asked) > chunk:
            die()
        return load(self, message_id)

    ChannelProgress.load = counting  # type: ignore[method-assign]  # only in this process, which is about to die


def registered(api: str, step: str = "", chunk: int = 0) -> dict[str, Registered]:
    def make() -> TelegramAdapter:
        return DyingTelegram(token=Secret("token"), api=api, step=step, chunk=chunk)

    limits = ChannelLimits(timeout_ms=20_000)
    return {"ops": Registered(name="ops", adapter="test", platform=TelegramAdapter.platform, limits=limits, make=make)}


async def deliver_and_die(path: Path, api: str, victim: str) -> None:
    step, _, number = victim.partition("-")
    chunk = int(number)
    if step == "leased":
        die_when_claimed(chunk)

    async def after(end: ChunkEnd) -> None:
        if (step, chunk) == ("ended", end.chunk.index):
            die()

    channels = Channels.open(
        path, registered(api, step, chunk), settings=HURRIED, entropy=StillDice(len(victim) + chunk), after=after
    )
    await channels.deliver(ChannelMessage(channel="ops", chat=victim, markdown=long_text(CHUNKS)))
    if step == "queued":
        die()
    await channels.drain()
    await channels.close()


def main() -> None:
    directory, api, *victims = sys.argv[1:]
    for victim in victims:
        child = os.fork()
        if child == 0:
            asyncio.run(deliver_and_die(Path(directory) / f"{victim}.db", api, victim))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{victim} {os.waitstatus_to_exitcode(status)}\n")


if __name__ == "__main__":
    main()
