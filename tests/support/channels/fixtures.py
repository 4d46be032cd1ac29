"""Channels on a file of their own, with platforms in memory and a clock that moves when told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restante.client.channels import ChannelMessage, Channels, Enqueued
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.policy.settings import Settings
from restante.runtime.channels.channel_config import Registered
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.integrity import check_file
from restante.runtime.sqlite.file.journal import Journal
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.testing.memory_channel import MemoryChannel


class StillDice(SeededEntropy):
    """Dice that never delay: every jittered wait is none."""

    def dice(self) -> float:
        return 0.0


def registered(name: str, platform: MemoryChannel) -> Registered:
    return Registered(
        name=name, adapter="memory", platform=platform.platform, limits=platform.limits, make=lambda: platform
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a test's messages live."""

    path: Path
    clock: FakeClock
    entropy: StillDice

    def open(self, settings: Settings | None = None, **rest: Any) -> Channels:
        platforms = {name: one for name, one in rest.items() if isinstance(one, MemoryChannel)}
        others = {name: one for name, one in rest.items() if name not in platforms}
        return Channels.open(
            self.path,
            {name: registered(name, one) for name, one in platforms.items()},
            settings=settings,
            clock=self.clock,
            entropy=self.entropy,
            **others,
        )

    def facts(self) -> list[tuple[str, str | None]]:
        """Kind and code of every fact, in order."""
        database = Database(self.path, schema="client", read_only=True)
        try:
            rows = Journal(database, self.entropy).events(after=0, limit=100_000)
        finally:
            database.close()
        return [(row.kind.value, row.code) for row in rows]

    def reports(self) -> list[str | None]:
        """What was said of sends that may repeat an earlier one."""
        return [code for kind, code in self.facts() if kind == JournalKind.RESENT]

    def assert_sound(self) -> None:
        database = Database(self.path, schema="client", read_only=True)
        try:
            assert [each for check in check_file(database) for each in check.findings] == []
        finally:
            database.close()


def place(directory: Path, seed: int = 1) -> Place:
    return Place(path=directory / "mail.db", clock=FakeClock(), entropy=StillDice(seed))


def long_text(chunks: int) -> str:
    """Markdown that becomes this many chunks on a platform of 4,000 characters."""
    return "\n\n".join(f"{number} " + "x" * 3_000 for number in range(chunks))


def draft(markdown: str = "hello", **more: Any) -> ChannelMessage:
    return ChannelMessage(**{"channel": "ops", "chat": "room", "markdown": markdown, **more})


async def states(channels: Channels, sent: object) -> list[State | None]:
    assert isinstance(sent, Enqueued)
    found = [await channels.outbox.status(each) for each in sent.message_ids]
    return [None if status is None else status.state for status in found]


async def delivered(channels: Channels, *texts: str, **more: object) -> Enqueued:
    """Queue the texts and drain once; return the receipt of the last one."""
    answer: object = None
    for text in texts:
        answer = await channels.deliver(draft(text, **more))
    assert isinstance(answer, Enqueued)
    await channels.drain()
    return answer
