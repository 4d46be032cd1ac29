"""What a greedy sender takes from 99 modest ones: at their relay, and as far as it only shares their machine.

Each case runs several times, in turns; a ratio is the median of the ratios within each round.
"""

import asyncio
import os
import statistics
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.end_to_end_actors import Part
from bench.end_to_end_stage import Actor, Stage, staged
from bench.results import Table, bar, milliseconds, percentile

ROUNDS: Final = 3
MODEST: Final = 99
MODEST_A_PROCESS: Final = 9
"""In one process they would share one event loop, and one share of a processor with the greedy sender."""
MODEST_MESSAGES: Final = 22
WARM_UP: Final = 5
PAUSE_S: Final = 0.5
PAUSE_ON_ONE_CORE_S: Final = 0.75
SHORT_S: Final = 0.2  # the processes of a case are started often
MAX_GREED: Final = 2.0
WITHOUT: Final = "without"
ELSEWHERE: Final = "with a greedy one at another relay"
HERE: Final = "with a greedy one at the same relay"


async def fairness(folder: Path, _messages: int, results: list[Table]) -> None:
    """The second case shows what the greedy sender costs the others by its use of the machine, not by the relay."""
    title = "99 modest senders, with and without a greedy one"
    results.append(await compared(folder, title, pause_s=PAUSE_S, cores=(None, None)))


async def fairness_by_cores(folder: Path, _messages: int, results: list[Table]) -> None:
    """Do the same with the relay and the modest ones on one processor, and the greedy one's processes on the other.

    What it takes from the modest ones then is what the relay gives it, and the disk.
    """
    title = "99 modest senders and the relay on one processor, the greedy one's processes on the other"
    first, *_, last = sorted(os.sched_getaffinity(0))
    results.append(await compared(folder, title, pause_s=PAUSE_ON_ONE_CORE_S, cores=({first}, {last})))


Cores = set[int] | None


async def compared(folder: Path, title: str, *, pause_s: float, cores: tuple[Cores, Cores]) -> Table:
    """Measure the three cases on the processors of the modest ones and of the greedy one."""
    modest_cores, greedy_cores = cores
    names = [f"m{number}" for number in range(MODEST)]
    measured: dict[str, list[list[float]]] = {WITHOUT: [], ELSEWHERE: [], HERE: []}
    async with AsyncExitStack() as stack:
        with on_cores(modest_cores):
            stage = await stack.enter_async_context(staged(folder / "modest"))
        with on_cores(greedy_cores):
            other = await stack.enter_async_context(staged(folder / "greedy"))
        await stage.introduce([(name, "bob") for name in names])
        for each in (stage, other):
            await each.introduce([(f"greedy-{number}", f"carol-{number}") for number in range(ROUNDS)])
        for number in range(ROUNDS):
            for case, at in ((WITHOUT, None), (ELSEWHERE, other), (HERE, stage)):
                with on_cores(greedy_cores):
                    greedy = [] if at is None else await started_greedy(at, number)
                with on_cores(modest_cores):
                    measured[case].append(await modest_latencies_us(stage, names, pause_s))
                for actor in greedy:
                    await actor.end()
    return _table(title, measured)


def _table(title: str, measured: dict[str, list[list[float]]]) -> Table:
    table = Table(title, ["case, median of three runs", "P50 ms", "P99 ms", "bar"])
    p99 = {case: [percentile(taken, 0.99) for taken in runs] for case, runs in measured.items()}
    for case, runs in measured.items():
        ratio = statistics.median(with_it / alone for with_it, alone in zip(p99[case], p99[WITHOUT], strict=True))
        verdict = {
            WITHOUT: "",
            ELSEWHERE: f"{ratio:.2f} x",
            HERE: bar(ratio <= MAX_GREED, f"{ratio:.2f} x, at most 2 x"),
        }
        p50 = statistics.median(percentile(taken, 0.5) for taken in runs)
        table.add([case, milliseconds(p50), milliseconds(statistics.median(p99[case])), verdict[case]])
    return table


@contextmanager
def on_cores(cores: Cores) -> Iterator[None]:
    """Let the processes that are started in the block use only these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def modest_latencies_us(stage: Stage, names: list[str], pause_s: float) -> list[float]:
    count = len(names) * MODEST_MESSAGES
    bob = await stage.start(
        Part(role="receive", homes=[stage.home("bob")], count=count, warm_up=WARM_UP, receive_delay_s=SHORT_S)
    )
    groups = [names[first : first + MODEST_A_PROCESS] for first in range(0, len(names), MODEST_A_PROCESS)]
    senders = await asyncio.gather(*(stage.start(_modest(stage, group, pause_s)) for group in groups))
    await bob.until("done", 0)
    await asyncio.gather(*(sender.finish() for sender in senders))
    await bob.finish()
    taken: list[float] = bob.seen["latencies_us"]
    return taken


def _modest(stage: Stage, names: list[str], pause_s: float) -> Part:
    homes = [stage.home(name) for name in names]
    return Part(
        role="send",
        homes=homes,
        contacts=[["bob"]] * len(homes),
        count=MODEST_MESSAGES,
        pause_s=pause_s,
        receive_delay_s=SHORT_S,
    )


async def started_greedy(stage: Stage, number: int) -> list[Actor]:
    """Start one sender that sends as fast as it can, and its recipient; return when it is busy.

    Another pair each time: what one that was killed had in flight is leased for a minute more.
    """
    homes, contacts = [stage.home(f"greedy-{number}")], [[f"carol-{number}"]]
    carol = await stage.start(Part(role="receive", homes=[stage.home(f"carol-{number}")], receive_delay_s=SHORT_S))
    greedy = await stage.start(Part(role="send", homes=homes, contacts=contacts, count=10**9, receive_delay_s=SHORT_S))
    await greedy.until("accepted", 500)
    return [greedy, carol]
