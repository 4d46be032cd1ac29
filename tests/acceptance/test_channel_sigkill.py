"""SIGKILL at each step of a five-chunk delivery: every chunk arrives, in order, repeats are reported (SPEC 12.6)."""

import asyncio
import signal
from pathlib import Path

from restante.client.channels import Channels
from restante.model.journal import JournalKind
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.integrity import check_file
from restante.runtime.sqlite.file.journal import Journal
from support.channels import killed_process
from support.channels.fixtures import StillDice
from support.channels.http_platform import HttpPlatform, listening, telegram_ok
from support.channels.killed_process import CHUNKS, VICTIMS, registered
from support.spec.clauses import clause
from support.system.programs import command
from support.system.wait_until import LIMIT_S


async def kill_all(directory: Path, api: str) -> dict[str, int]:
    """How each victim ended."""
    process = await asyncio.create_subprocess_exec(
        *command(killed_process), str(directory), api, *VICTIMS, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LIMIT_S):
        said, _ = await process.communicate()
    return {name: int(status) for name, status in (line.split() for line in said.decode().splitlines())}


async def restart(path: Path, api: str) -> None:
    """The same program once more, until nothing is on its way."""
    channels = Channels.open(path, registered(api), entropy=StillDice(99))
    running = asyncio.create_task(channels.run())
    stream = channels.outbox.events()
    async with asyncio.timeout(LIMIT_S):
        while await channels.outbox.counts():
            await anext(stream)
    running.cancel()
    await asyncio.wait([running])
    await channels.close()


def facts(path: Path) -> list[tuple[JournalKind, str | None]]:
    database = Database(path, schema="client", read_only=True)
    try:
        assert [each for check in check_file(database) for each in check.findings] == []
        rows = Journal(database, StillDice(0)).events(after=0, limit=10_000)
    finally:
        database.close()
    return [(row.kind, row.code) for row in rows]


@clause("12.1", "12.6")
async def test_every_chunk_arrives_in_order_whenever_the_process_was_killed(tmp_path: Path) -> None:
    async with listening(HttpPlatform(telegram_ok)) as telegram:
        ended = await kill_all(tmp_path, telegram.url)
        assert ended == dict.fromkeys(VICTIMS, -signal.SIGKILL)
        for victim in VICTIMS:
            await restart(tmp_path / f"{victim}.db", telegram.url)
        got = [asked.json() for asked in telegram.accepted]
    for victim in VICTIMS:
        step, _, number = victim.partition("-")
        arrived = [int(one["text"].partition(" ")[0]) for one in got if one["chat_id"] == victim]
        expected = list(range(CHUNKS))
        if step == "accepted":
            expected.insert(int(number), int(number))
        assert arrived == expected, victim
        told = facts(tmp_path / f"{victim}.db")
        reports = [code for kind, code in told if kind is JournalKind.RESENT]
        assert reports == (["may_repeat"] if step in ("marked", "accepted") else []), victim
        assert sum(kind is JournalKind.DELIVERED for kind, _ in told) == CHUNKS
