"""Seeded storms over a channel: platforms that lie, limit and fall silent, processes that die in the middle of a send.

A death is a copy of the file as it lies on disk at that moment; the next process opens the copy. What the dead process
still writes goes to its own file, which is not opened again.
"""

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from restante.client.channels import Channels, Enqueued, Strategy
from restante.model.ids import MessageId
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.policy.channel_platforms import Platform
from restante.ports.channel_adapter import NoAnswer, NotSent, Outgoing, PlatformAck, SendRefused
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.testing.deterministic import FakeClock
from restante.testing.memory_channel import MemoryChannel
from support.channels.fixtures import Place, StillDice, draft, long_text
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

SEEDS = range(100)
CHATS = ("one", "two")
CHUNKS = 3
MOST_ROUNDS = 400
WEATHER = {
    "take": 60,
    "take and fall silent": 5,
    "fall silent": 5,
    "be away": 5,
    "fail": 5,
    "limit": 4,
    "dislike the format": 4,
    "refuse": 2,
    "die before": 4,
    "die after": 4,
}


class Death(BaseException):
    """The process is gone."""


class Storm(MemoryChannel):
    """One platform through all lives of the process."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(platform=Platform.TELEGRAM)
        self._dice = dice
        self.place: Place | None = None
        self.heir = Path()

    async def send(self, message: Outgoing) -> PlatformAck:
        if self.place is None:
            raise Death(self.heir)  # of the dead, nothing leaves any more
        [weather] = self._dice.choices(list(WEATHER), list(WEATHER.values()))
        if weather == "die before":
            self._die()
        if weather in ("take", "take and fall silent", "die after"):
            self.taken.append(message)
        if weather == "die after":
            self._die()
        trouble: dict[str, Exception] = {
            "take and fall silent": NoAnswer("silence"),
            "fall silent": NoAnswer("silence"),
            "be away": NotSent("nobody there"),
            "fail": SendRefused("Internal Server Error", status=500),
            "limit": SendRefused("Too Many Requests", status=429, retry_after_ms=self._dice.randint(31_000, 300_000)),
            "dislike the format": SendRefused("Bad Request: can't parse entities", status=400),
            "refuse": SendRefused("Forbidden: bot was blocked by the user", status=403),
        }
        if weather in trouble:
            raise trouble[weather]
        return PlatformAck("name")

    def _die(self) -> None:
        assert self.place is not None
        grave = self.place.path
        self.heir = heir = grave.with_name(f"{int(grave.stem) + 1}.db")
        for ending in ("", "-wal", ".key"):
            shutil.copy(f"{grave}{ending}", f"{heir}{ending}")
        self.place = None
        raise Death(heir)


async def live(place: Place, storm: Storm, rounds: int) -> None:
    """Drain until nothing is on its way."""
    channels = place.open(ops=storm)
    storm.place = place
    try:
        for _ in range(rounds):
            await channels.drain()
            if storm.place is None:
                raise Death(storm.heir)
            if not await channels.outbox.counts():
                return
            place.clock.advance(60_000)
        pytest.fail("it never ends")
    finally:
        await channels.close()


async def weathered(directory: Path, seed: int, strategy: Strategy) -> tuple[Place, Storm, list[Enqueued]]:
    dice = random.Random(seed)  # noqa: S311 - the weather, not a secret
    clock = FakeClock()
    place = Place(path=directory / "0.db", clock=clock, entropy=StillDice(seed))
    storm = Storm(dice)
    channels: Channels = place.open(ops=storm)
    sent = []
    for chat in CHATS * 2:
        answer = await channels.deliver(draft(long_text(CHUNKS), chat=chat, strategy=strategy))
        assert isinstance(answer, Enqueued)
        sent.append(answer)
    await channels.close()
    while True:
        try:
            await live(place, storm, MOST_ROUNDS)
        except Death as death:
            place = Place(path=Path(death.args[0]), clock=clock, entropy=StillDice(clock.now_ms()))
        else:
            return place, storm, sent


def history(place: Place) -> tuple[dict[MessageId, State], Counter[MessageId]]:
    """Where each message ended, and how often it was said to be sent again."""
    database = Database(place.path, schema="client", read_only=True)
    try:
        rows = Journal(database, place.entropy).events(after=0, limit=100_000)
    finally:
        database.close()
    ends = {JournalKind.DELIVERED: State.DELIVERED, JournalKind.DEAD_LETTERED: State.DEAD}
    states = {row.message_id: ends[row.kind] for row in rows if row.message_id is not None and row.kind in ends}
    resent = Counter(row.message_id for row in rows if row.message_id is not None and row.kind is JournalKind.RESENT)
    return states, resent


@clause("12.1", "12.4", "12.6")
@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("seed", first_now_rest_in_soak(SEEDS, now=3))
async def test_whatever_the_weather_every_chunk_is_accounted_for_in_order_and_no_repeat_is_silent(
    tmp_path: Path, seed: int, strategy: Strategy
) -> None:
    place, storm, sent = await weathered(tmp_path, seed, strategy)
    place.assert_sound()
    states, resent = history(place)
    arrived = Counter(bytes.fromhex(one.key.partition("-")[0]) for one in storm.taken)
    for delivery in sent:
        ends = [states[message_id] for message_id in delivery.message_ids]
        for message_id, end in zip(delivery.message_ids, ends, strict=True):
            assert end is State.DEAD or arrived[message_id] >= 1, "said to be delivered, but never arrived"
            assert arrived[message_id] <= 1 + resent[message_id], "arrived again, and nobody said so"
        if strategy is Strategy.ALL_OR_ABORT:
            assert ends == sorted(ends, key=lambda end: end is State.DEAD), "a chunk was sent after one was given up"
    for chat in CHATS:
        first = list(dict.fromkeys(bytes.fromhex(one.key) for one in storm.taken if one.chat == chat))
        queued = [each for delivery in sent for each in delivery.message_ids if each in first]
        assert first == queued, "a later chunk overtook an earlier one"


async def test_storms_really_have_deaths_and_repeats(tmp_path: Path) -> None:
    deaths = repeats = 0
    for seed in SEEDS[:8]:
        directory = tmp_path / str(seed)
        directory.mkdir()
        place, storm, _ = await weathered(directory, seed, Strategy.BEST_EFFORT)
        deaths += int(place.path.stem)
        repeats += len(storm.taken) - len({one.key for one in storm.taken})
    assert deaths > 8
    assert repeats > 2
