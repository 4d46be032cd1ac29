"""testing/virtual_time: hours pass at once, and a run that cannot go on says so."""

import asyncio
import time
from itertools import count

import pytest

from restante.model.errors import LocalProtocolError
from restante.testing.deterministic import FakeClock
from restante.testing.virtual_time import run_in_virtual_time


def test_a_day_of_timers_takes_no_time_and_moves_the_clock_by_a_day() -> None:
    clock = FakeClock(at_ms=1_000)
    began_s = time.monotonic()

    async def main() -> str:
        await asyncio.gather(asyncio.sleep(86_400), asyncio.sleep(60))
        return "rested"

    assert run_in_virtual_time(main(), clock) == "rested"
    assert clock.at_ms == 1_000 + 86_400_000
    assert time.monotonic() - began_s < 60


def test_tasks_wake_in_the_order_of_their_timers() -> None:
    clock = FakeClock(at_ms=0)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, clock.now_ms()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 2.5), sleeper("early", 0.25), sleeper("between", 1.0))

    run_in_virtual_time(main(), clock)
    assert woken == [("early", 250), ("between", 1_000), ("late", 2_500)]


def test_fractions_of_a_millisecond_add_up() -> None:
    clock = FakeClock(at_ms=0)

    async def main() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0.000_1)

    run_in_virtual_time(main(), clock)
    assert clock.at_ms == 1_000


def test_a_time_limit_counts_virtual_time() -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    clock = FakeClock(at_ms=0)
    with pytest.raises(TimeoutError):
        run_in_virtual_time(main(), clock)
    assert clock.at_ms == 30_000


def test_a_run_in_which_nothing_can_happen_any_more_says_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(LocalProtocolError, match="no timer is set"):
        run_in_virtual_time(main(), FakeClock())


def test_a_task_that_spins_is_found_out() -> None:
    async def main() -> None:
        for _ in count():
            await asyncio.sleep(0)

    with pytest.raises(LocalProtocolError, match="some task spins"):
        run_in_virtual_time(main(), FakeClock())
