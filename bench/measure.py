"""How every benchmark measures: rounds that take turns, a median, and a ratio to a named peer.

The machine's mood changes from second to second. Taking turns gives every contender the same mood; the median of the
rounds forgets the worst of it.
"""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Operations a second, the median of all rounds; `spread` is the fastest round over the slowest.

    `overall` is all operations over all the time: where work is put off to a later round, the median does not see it.
    """

    name: str
    per_second: float
    overall: float
    spread: float


def take_turns(contenders: Mapping[str, Callable[[], int]], *, rounds: int) -> dict[str, Measured]:
    """Run each contender once a round. A contender does its work and says how many operations that was.

    What the one before left behind is collected first: nobody pays for another's garbage.
    """
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            gc.collect()
            start = time.perf_counter()
            operations = work()
            rates[name].append(operations / (time.perf_counter() - start))
    return {
        name: Measured(
            name=name,
            per_second=statistics.median(seen),
            overall=statistics.harmonic_mean(seen),
            spread=max(seen) / min(seen),
        )
        for name, seen in rates.items()
    }


async def in_flight(work: Callable[[int], Awaitable[object]], numbers: Iterable[int], width: int) -> list[float]:
    """Do the work for all numbers, `width` at a time; return how many seconds each took."""
    waiting, took = iter(numbers), list[float]()

    async def one_after_the_other() -> None:
        for number in waiting:
            began = time.perf_counter()
            await work(number)
            took.append(time.perf_counter() - began)

    await asyncio.gather(*[one_after_the_other() for _ in range(width)])
    return took


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Operations a second, and what each took of all processors: a rate depends on what else runs, this hardly."""

    per_second: float
    processor_us: float
    first_share: float
    """The part that the first process took."""


async def cost_of(
    work: Callable[[int], Awaitable[object]], numbers: range, width: int, *, processes: Sequence[int]
) -> Cost:
    """Do the work for all numbers, `width` at a time, and say what it cost these processes."""
    before, began = [processor_s(each) for each in processes], time.perf_counter()
    await in_flight(work, numbers, width)
    took_s = time.perf_counter() - began
    used = [processor_s(each) - earlier for each, earlier in zip(processes, before, strict=True)]
    return Cost(
        per_second=len(numbers) / took_s,
        processor_us=sum(used) / len(numbers) * 1e6,
        first_share=used[0] / max(sum(used), 1e-9),
    )


def processor_s(process: int) -> float:
    """Return what a process has used so far, all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ratio_line(ours: Measured, peer: Measured) -> str:
    ratio = ours.per_second / peer.per_second
    return f"  {ours.name:<34} {ours.per_second:>12,.0f}/s   {ratio:6.2f} x {peer.name} ({peer.per_second:,.0f}/s)"


def judge(ours: Measured, peer: Measured, *, bar: float, dream: float | None = None) -> None:
    """Print the ratio and whether it reaches the bar."""
    ratio = ours.per_second / peer.per_second
    hope = "" if dream is None else f", dream {dream:g} {'reached' if ratio >= dream else 'not reached'}"
    print(f"{ratio_line(ours, peer)}   {verdict(ratio >= bar)} (at least {bar:g}{hope})")


def verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def warn_if_restless(rates: Mapping[str, Measured], *, limit: float) -> None:
    """Another user of the machine slows one contender more than another: say so."""
    restless = [f"{rate.name} {rate.spread:.1f} x" for rate in rates.values() if rate.spread > limit]
    if restless:
        print(f" restless machine, do not trust these ratios; fastest round over slowest: {', '.join(restless)}")
