"""From `send` to the other application: real processes for sender, relay and recipient, default settings, 1 KiB bodies.

`python -m bench.end_to_end` runs everything. `--only loop,latency` runs some parts, `--messages 2000` shortens the
loops, `--large` adds 100,000 messages. Results are written to bench/results/end_to_end.json.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.end_to_end_actors import Part
from bench.end_to_end_bare import bare_latencies_us
from bench.end_to_end_fairness import fairness, fairness_by_cores
from bench.end_to_end_floor import SYNCS, crypto_us, redis_latencies_us, sync_us
from bench.end_to_end_idle import idle
from bench.end_to_end_stage import Actor, Stage, staged
from bench.results import Table, bar, milliseconds, percentile, with_earlier_rows, write_results

WORKING_DIRECTORY: Final = Path(".run/bench-end-to-end")  # the system's place for temporary files may be no disk
MESSAGES: Final = 20_000
KILLS: Final = 5
OFFLINE_PART: Final = 0.2
ALONE: Final = 4_000  # enough that the write-ahead logs are written over, as in a process that runs for long
SIDES: Final = 10  # clients on each side of the many conversations, each with each
WARM_UP: Final = 5
ROUNDS: Final = 5
"""Of single messages: a run takes a few seconds, and the disk's sync moves by a fifth from one to the next."""

MIN_RATE: Final = 1_500
MAX_FLOORS: Final = 2.5
MAX_TAIL: Final = 4.0


def pair(stage: Stage, **more: Any) -> tuple[Part, Part]:
    """Return the parts of one sender and one recipient."""
    count = more.pop("count")
    sender = Part(role="send", homes=[stage.home("alice")], contacts=[["bob"]], count=count, **more)
    return sender, Part(
        role="receive", homes=[stage.home("bob")], count=count, turns=more.get("turns"), warm_up=WARM_UP
    )


class Loop:
    """One sender that calls `send` in a loop, and what became of the messages."""

    def __init__(self, name: str, messages: int, *, kills: int = 0, offline: int = 0) -> None:
        self.name = name
        self._messages = messages
        self._kills = kills
        self._offline = offline
        self.rate = 0.0
        self.us: dict[str, float] = {}
        self.p50_ms = self.p99_ms = 0.0

    async def run(self, folder: Path) -> list[str]:
        """Return a row of the table of loops."""
        async with staged(folder) as stage:
            await stage.introduce([("alice", "bob")])
            sending, receiving = pair(stage, count=self._messages)
            bob = None if self._offline else await stage.start(receiving)
            alice = await stage.start(sending)
            if bob is None:
                await alice.until("accepted", self._offline)
                bob = await stage.start(receiving)
            for kill in range(self._kills):
                await bob.until("arrived", (kill + 1) * self._messages // (self._kills + 1))
                await asyncio.to_thread(stage.relay.kill_and_restart)
            try:
                await bob.until("done", 0)
                await alice.until("done", 0)
            except TimeoutError:
                print(f"  {self.name}: nothing more arrives", file=sys.stderr)
            self._note(alice, bob, stage)
            states = await alice.finish()
            await bob.finish()
        return self._row(alice, bob, states)

    def _note(self, alice: Actor, bob: Actor, stage: Stage) -> None:
        arrived = max(1, bob.seen.get("done", bob.seen.get("arrived", 0)))
        if "last_ns" in bob.seen and "first_ns" in alice.seen:
            self.rate = arrived / ((bob.seen["last_ns"] - alice.seen["first_ns"]) / 1e9)
            self.p50_ms = percentile(bob.seen["latencies_us"], 0.5) / 1_000
            self.p99_ms = percentile(bob.seen["latencies_us"], 0.99) / 1_000
        used = {"sender": alice.processor_s(), "relay": stage.relay.processor_s(), "recipient": bob.processor_s()}
        self.us = {part: seconds * 1e6 / arrived for part, seconds in used.items()}

    def _row(self, alice: Actor, bob: Actor, states: dict[str, int]) -> list[str]:
        arrived, disorder = bob.seen.get("done", bob.seen.get("arrived", 0)), bob.seen.get("out_of_order", -1)
        total = sum(states.values())
        balanced = total == self._messages and states.get("delivered", 0) == arrived
        passed = arrived == self._messages and disorder == 0 and not states.get("evicted") and balanced
        return [
            self.name,
            f"{self._messages:,}",
            f"{arrived:,}",
            "yes" if disorder == 0 else "NO",
            f"{states.get('evicted', 0):,}",
            f"{alice.seen.get('refused', 0):,}",
            ", ".join(f"{state} {count:,}" for state, count in sorted(states.items())),
            f"{self.rate:,.0f}",
            bar(passed),
        ]


async def loops(folder: Path, messages: int, results: list[Table]) -> None:
    table = Table(
        f"{messages:,} messages in a loop",
        ["case", "sent", "arrived", "once and in order", "evicted", "refused", "final states", "messages/s", "bar"],
    )
    offline = int(messages * OFFLINE_PART)
    cases = [
        Loop("healthy relay", messages),
        Loop(f"relay killed {KILLS} times", messages, kills=KILLS),
        Loop(f"recipient offline for the first {offline:,}", messages, offline=offline),
    ]
    for number, case in enumerate(cases):
        table.add(await case.run(folder / f"loop-{number}"))
    results.append(table)
    results.append(shares("one conversation", cases[0].rate, cases[0].us))


def shares(name: str, rate: float, us: dict[str, float]) -> Table:
    table = Table(f"Sustained rate, {name}", ["part", "processor µs a message", "share", "bar"])
    for part, each in us.items():
        table.add([part, f"{each:,.0f}", f"{each / sum(us.values()):.0%}", ""])
    passed = bar(rate >= MIN_RATE, f"at least {MIN_RATE:,}, goal 3,000")
    table.add([f"all: {rate:,.0f} messages/s", f"{sum(us.values()):,.0f}", "", passed])
    return table


async def conversations(folder: Path, messages: int, results: list[Table]) -> None:
    senders, readers = [f"s{n}" for n in range(SIDES)], [f"r{n}" for n in range(SIDES)]
    each = max(1, messages // (SIDES * SIDES))
    async with staged(folder / "many") as stage:
        await stage.introduce([(one, other) for one in senders for other in readers])
        count = each * SIDES * SIDES
        bobs = await stage.start(Part(role="receive", homes=[stage.home(name) for name in readers], count=count))
        alices = await stage.start(
            Part(role="send", homes=[stage.home(n) for n in senders], contacts=[readers] * SIDES, count=each)
        )
        await bobs.until("done", 0)
        await alices.until("done", 0)
        seconds = (bobs.seen["last_ns"] - alices.seen["first_ns"]) / 1e9
        used = {
            "senders": alices.processor_s(),
            "relay": stage.relay.processor_s(),
            "recipients": bobs.processor_s(),
        }
        disorder = bobs.seen["out_of_order"]
    us = {part: taken * 1e6 / count for part, taken in used.items()}
    table = shares(f"{SIDES * SIDES} conversations", count / seconds, us)
    table.add([f"out of order: {disorder:,} of {count:,}", "", "", bar(disorder == 0, "none")])
    results.append(table)


class Turn(NamedTuple):
    """One run of single messages, and the floor that was measured around it."""

    taken_us: list[int]
    sync_us: float
    pieces_us: dict[str, float]

    @property
    def p50_us(self) -> float:
        return percentile(self.taken_us, 0.5)

    @property
    def floor_us(self) -> float:
        return SYNCS * self.sync_us + sum(self.pieces_us.values())

    @property
    def floors(self) -> float:
        return self.p50_us / self.floor_us


async def alone(folder: Path) -> Turn:
    before = sync_us(folder)  # a disk's time moves within a run: measured before and after ours
    async with staged(folder / "alone") as stage:
        await stage.introduce([("alice", "bob")])
        sending, receiving = pair(stage, count=ALONE, turns=str(folder / "turns"))
        bob = await stage.start(receiving)
        await stage.start(sending)
        await bob.until("done", 0)
        taken: list[int] = bob.seen["latencies_us"]
    return Turn(taken, statistics.mean([before, sync_us(folder)]), crypto_us())


async def latency(folder: Path, _messages: int, results: list[Table]) -> None:
    turns = []
    for number in range(ROUNDS):
        (folder / str(number)).mkdir()
        turns.append(await alone(folder / str(number)))
    turns.sort(key=lambda turn: turn.floors)
    taken, sync, pieces = middle = turns[len(turns) // 2]
    p50, p99, floor = middle.p50_us, percentile(taken, 0.99), middle.floor_us
    others = f"{turns[0].floors:.2f} to {turns[-1].floors:.2f} x in {ROUNDS} runs"
    table = Table(
        "One message in flight: send called → the other application has it",
        ["what", "P50 ms", "P99 ms", "bar"],
    )
    table.add(
        [
            "Restante, end to end encrypted",
            milliseconds(p50),
            milliseconds(p99),
            bar(p99 <= MAX_TAIL * p50, "P99 at most 4 x P50"),
        ]
    )
    table.add(
        [
            f"floor: {SYNCS} syncs and the cryptography",
            milliseconds(floor),
            "",
            bar(p50 <= MAX_FLOORS * floor, f"{middle.floors:.2f} x, {others}; at most 2.5 x, goal 2 x"),
        ]
    )
    bare = [round(each) for each in bare_latencies_us((folder / "bare").resolve(), ALONE)[WARM_UP:]]
    table.add(
        [
            "bare pipeline: the same processes, syncs and cryptography, none of our rules",
            milliseconds(percentile(bare, 0.5)),
            milliseconds(percentile(bare, 0.99)),
            f"{percentile(bare, 0.5) / floor:.2f} x the floor",
        ]
    )
    redis = redis_latencies_us(folder, ALONE)
    if redis is None:
        table.add(["Redis Streams, appendfsync always: not installed", "", "", ""])
    else:
        taken = [round(each) for each in redis[WARM_UP:]]
        table.add(
            [
                "Redis Streams, appendfsync always, not encrypted",
                milliseconds(percentile(taken, 0.5)),
                milliseconds(percentile(taken, 0.99)),
                "",
            ]
        )
    for name, each in {f"sync of an appended page, one of {SYNCS}": sync, **pieces}.items():
        table.add([f"  {name}", milliseconds(each), "", ""])
    results.append(table)


async def sizes(folder: Path, messages: int, results: list[Table], *, large: bool = False) -> None:
    """Rate and latency over how many messages there are."""
    table = Table(
        "Sustained rate and latency by number of messages",
        ["messages", "messages/s", "P50 ms", "P99 ms"],
        plot=(0, 1, 2, 3),
    )
    for count in (1_000, 10_000, *((100_000,) if large else ())):
        if count > 5 * messages:
            continue
        case = Loop(f"{count:,}", count)
        await case.run(folder / f"size-{count}")
        table.add([f"{count:,}", f"{case.rate:,.0f}", f"{case.p50_ms:,.1f}", f"{case.p99_ms:,.1f}"])
        write_results("end_to_end", [with_earlier_rows("end_to_end", table)])  # the largest takes minutes
    results.append(with_earlier_rows("end_to_end", table))


PARTS: Final[dict[str, Callable[[Path, int, list[Table]], Awaitable[None]]]] = {
    "latency": latency,
    "loop": loops,
    "conversations": conversations,
    "fairness": fairness,
    "cores": fairness_by_cores,
    "idle": idle,
    "sizes": sizes,
}


async def run(names: list[str], messages: int, *, large: bool) -> None:
    results: list[Table] = []
    for name in names:
        started = time.monotonic()
        before = len(results)
        folder = WORKING_DIRECTORY / name
        folder.mkdir(parents=True)
        if name == "sizes":
            await sizes(folder, messages, results, large=large)
        else:
            await PARTS[name](folder, messages, results)
        for table in results[before:]:
            print(table.as_text(), flush=True)
        print(f"  ({name}: {time.monotonic() - started:.0f} s)\n", flush=True)
        shutil.rmtree(folder)
        write_results("end_to_end", results)  # after each part: what was measured is not lost if a later one fails


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--large", action="store_true", help="also 100,000 messages")
    chosen = parser.parse_args(argv)
    shutil.rmtree(WORKING_DIRECTORY, ignore_errors=True)
    asyncio.run(run(chosen.only.split(","), chosen.messages, large=chosen.large))


if __name__ == "__main__":
    main()
