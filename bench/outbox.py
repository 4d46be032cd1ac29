"""What durability costs: our outbox against bare `sqlite3` and three queues on SQLite, on the same disk.

Every contender works at `synchronous=FULL` in WAL with 1 KiB payloads. Ours does more in each commit (indexes of
choice, totals, journal); it can win only by sharing commits between callers that wait anyway.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.measure import Measured, judge, ratio_line, take_turns, verdict, warn_if_restless
from bench.outbox_baselines import PAYLOAD, open_peers
from restante.client.outbox import Destination, Message, Outbox
from restante.model.ids import MessageId
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.wire.acks import AckType

WARM_UP: Final = 3
ROUNDS: Final = 9
COMMITS: Final = 600  # in one round, of a contender that commits each message by itself
TOGETHER: Final = 64
BATCH: Final = 100
SHARED: Final = 2_560  # messages in one round, of one that shares its commits
LIVES: Final = 1_280
FEW: Final = 1_000
MANY: Final = 10_000  # the default capacity
FULL: Final = 1_000_000
FILL_BATCH: Final = 1_000
LIVES_FOR_MEMORY: Final = 25_600
STRETCHES: Final = 4
FLAT_KIB: Final = 512  # what an allocator may round
RESTLESS: Final = 2.0  # another user of the disk slows the one that syncs most, and flatters the others
WORKING_DIRECTORY: Final = Path(".run")  # the system's place for temporary files may be no disk at all
LIFTED: Final = Settings(outbox=OutboxLimits(max_entries=FULL, max_payload_bytes=10_000_000_000, max_lane_share=1.0))
ITEM: Final = (Message(payload=PAYLOAD, kind="text"), Destination(Route.MESH, "lane"))


class Accepting:
    """A next hop that takes everything at once, and a clock that ticks only then: a drain's budget becomes a number
    of messages."""

    def __init__(self) -> None:
        self.taken: list[MessageId] = []
        self._time_ms = time.time_ns() // 1_000_000

    def is_up(self) -> bool:
        return True

    def is_connected(self, _lane: str) -> bool:
        return True

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        self.taken.append(entry.message_id)
        self._time_ms += 1
        return ()

    def now_ms(self) -> int:
        return self._time_ms


class Ours:
    """One outbox file and the ways it is used."""

    def __init__(self, path: Path, runner: asyncio.Runner) -> None:
        self._run = runner.run
        self._next_hop = Accepting()
        self._outbox = Outbox.open(path, settings=LIFTED, clock=self._next_hop)

    def send_alone(self) -> int:
        self._run(self._send_in_turn(COMMITS))
        return COMMITS

    def send_together(self, messages: int = SHARED) -> int:
        self._run(self._send_together(messages // TOGETHER))
        return messages

    def send_many(self, messages: int = SHARED, batch: int = BATCH) -> int:
        self._run(self._send_many(messages // batch, batch))
        return messages // batch * batch

    def finish(self, messages: int = LIVES) -> int:
        """Lease, sent and receipt of at least the next `messages`, in the runs that a lane leases."""
        return self._run(self._finish_waiting(messages))

    def live(self, messages: int = LIVES) -> int:
        """Whole lives: `TOGETHER` messages go through each stage side by side."""
        self._run(self._live(messages // TOGETHER))
        return messages

    def close(self) -> None:
        self._run(self._outbox.close())

    async def _send_in_turn(self, messages: int) -> None:
        for _ in range(messages):
            await self._outbox.send(*ITEM)

    async def _send_together(self, each: int) -> None:
        await asyncio.gather(*(self._send_in_turn(each) for _ in range(TOGETHER)))

    async def _send_many(self, times: int, batch: int) -> None:
        for _ in range(times):
            await self._outbox.send_many([ITEM] * batch)

    async def _live(self, times: int) -> None:
        for _ in range(times):
            await self._send_together(1)
            assert await self._finish() == TOGETHER

    async def _finish_waiting(self, messages: int) -> int:
        finished = 0
        while finished < messages:
            finished += await self._finish()
        return finished

    async def _finish(self) -> int:
        """Return how many messages were sent and receipted."""
        await self._outbox.drain({Route.MESH: self._next_hop}, budget_ms=TOGETHER)
        taken, self._next_hop.taken = self._next_hop.taken, []
        await asyncio.gather(*(self._outbox.acknowledge(message_id, AckType.RECEIPT) for message_id in taken))
        return len(taken)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.outbox", description="The outbox against its peers.")
    parser.add_argument("--waiting", type=int, default=MANY, help=f"entries that wait in the big file ({MANY:,})")
    parser.add_argument("--full", action="store_const", dest="waiting", const=FULL, help=f"--waiting {FULL}")
    waiting: int = parser.parse_args(arguments).waiting
    WORKING_DIRECTORY.mkdir(exist_ok=True)
    print("outbox, 1 KiB, synchronous=FULL, medians of rounds that take turns")
    print(f"  load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    # Memory first: growth would hide in what the others have freed.
    for measure in (watch_memory, compare_enqueue, compare_lives, partial(compare_waiting, waiting=waiting)):
        with tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY) as folder, asyncio.Runner() as runner:
            measure(Path(folder), runner)


def compare_enqueue(folder: Path, runner: asyncio.Runner) -> None:
    ours = {name: Ours(folder / f"{name}.db", runner) for name in ("alone", "together", "many")}
    rates = _settled(
        {
            **{name: _repeat(peer.enqueue) for name, peer in open_peers(folder)},
            "one sender": ours["alone"].send_alone,
            f"{TOGETHER} senders": ours["together"].send_together,
            f"send_many of {BATCH}": ours["many"].send_many,
        }
    )
    bare = rates["bare sqlite3"]
    print(" enqueue")
    judge(rates["one sender"], bare, bar=0.8)
    judge(rates[f"{TOGETHER} senders"], bare, bar=4, dream=6)
    judge(rates[f"send_many of {BATCH}"], bare, bar=6)
    _show_others(rates, rates[f"{TOGETHER} senders"], ("huey", "persist-queue", "litequeue"))
    for outbox in ours.values():
        outbox.close()


def compare_lives(folder: Path, runner: asyncio.Runner) -> None:
    ours = Ours(folder / "lives.db", runner)
    rates = _settled(
        {
            **{name: _repeat(peer.enqueue, peer.dequeue) for name, peer in open_peers(folder)},
            f"whole life, {TOGETHER} in flight": ours.live,
        }
    )
    life = rates[f"whole life, {TOGETHER} in flight"]
    print(" whole life: enqueue, lease, sent, receipt; peers: enqueue, dequeue")
    if "huey" in rates:
        judge(life, rates["huey"], bar=3)
    _show_others(rates, life, ("bare sqlite3", "persist-queue", "litequeue"))
    ours.close()


def compare_waiting(folder: Path, runner: asyncio.Runner, *, waiting: int) -> None:
    """Compare the same operations beside few and beside many entries that wait."""
    few, many = Ours(folder / "few.db", runner), Ours(folder / "many.db", runner)
    few.send_many(FEW, FEW)
    room = min(waiting, FULL - SHARED)  # a round adds before it takes away
    many.send_many(room, FILL_BATCH)
    contenders = {
        f"enqueue, {FEW:,} waiting": lambda: few.send_together(LIVES),
        f"lease, sent, receipt, {FEW:,} waiting": few.finish,
        f"enqueue, {waiting:,} waiting": lambda: many.send_together(LIVES),
        f"lease, sent, receipt, {waiting:,} waiting": many.finish,
    }
    take_turns(contenders, rounds=WARM_UP)
    rates = take_turns(contenders, rounds=ROUNDS)
    print(
        f" cost with many waiting{'' if waiting >= FULL else f'; the bar is meant for {FULL:,}: --full, some minutes'}"
    )
    for operation in ("enqueue", "lease, sent, receipt"):
        cheap, dear = rates[f"{operation}, {FEW:,} waiting"], rates[f"{operation}, {waiting:,} waiting"]
        cost, overall = cheap.per_second / dear.per_second, cheap.overall / dear.overall
        print(
            f"  {operation:<34} {1e6 / dear.per_second:>11,.0f} µs   {cost:6.2f} x {1e6 / cheap.per_second:,.0f} µs"
            f" with {FEW:,}   {verdict(cost <= 1.5)} (at most 1.5)"
            f"; all rounds {overall:.2f} x {verdict(overall <= 1.5)}"
        )
    few.close()
    many.close()


def watch_memory(folder: Path, runner: asyncio.Runner) -> None:
    """In equal stretches: what is warmed up once shows in the first, a leak would show in all."""
    ours = Ours(folder / "memory.db", runner)
    ours.live()
    held_kib = [_resident_kib()]
    for _ in range(STRETCHES):
        ours.live(LIVES_FOR_MEMORY)
        held_kib.append(_resident_kib())
    grown_kib = held_kib[-1] - held_kib[-2]
    shown = " → ".join(f"{kib:,}" for kib in held_kib)
    print(f" memory over {STRETCHES} times {LIVES_FOR_MEMORY:,} whole lives: {shown} KiB")
    outcome = verdict(grown_kib <= FLAT_KIB)
    print(f"  grown in the last stretch {grown_kib:>15,} KiB   {outcome} (at most {FLAT_KIB:,})")
    ours.close()


def _settled(contenders: dict[str, Callable[[], int]]) -> dict[str, Measured]:
    """Measured after rounds that do not count: a write-ahead log costs more until it has reached its length."""
    take_turns(contenders, rounds=WARM_UP)
    rates = take_turns(contenders, rounds=ROUNDS)
    warn_if_restless(rates, limit=RESTLESS)
    return rates


def _repeat(*steps: Callable[[], None]) -> Callable[[], int]:
    def work() -> int:
        for _ in range(COMMITS):
            for step in steps:
                step()
        return COMMITS

    return work


def _show_others(rates: dict[str, Measured], ours: Measured, names: Sequence[str]) -> None:
    for name in names:
        if name in rates:
            print(ratio_line(ours, rates[name]))


def _resident_kib() -> int:
    """What this process holds now, not its peak."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_024


if __name__ == "__main__":
    main(sys.argv[1:])
