"""asyncio without waiting: when every task waits, time jumps to the first timer, and the fake clock with it.

An hour of timeouts and retries passes in the time its work takes, and the same seed gives the same run. Only for code
whose every wait is a timer or another task: a socket would be overtaken by the clock. What is meant for a thread is
done at once.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

from restante.model.errors import LocalProtocolError
from restante.testing.deterministic import FakeClock

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

MAX_TURNS_AT_A_STAND: Final = 100_000


def run_in_virtual_time(main: Coroutine[Any, Any, Result], clock: FakeClock) -> Result:
    """What `main` returns. `clock` is moved as far as the event loop's own time."""
    with asyncio.Runner(loop_factory=lambda: _JumpingLoop(clock)) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait for the time it is told to wait, but says that it has passed."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._below_ms = 0.0
        self._turns_at_a_stand = 0
        self.passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise LocalProtocolError("every task waits for another one, and no timer is set: nothing can happen now")
        if timeout > 0:
            self._pass(timeout)
        elif self._turns_at_a_stand == MAX_TURNS_AT_A_STAND:
            self._turns_at_a_stand = 0  # the runner still needs some turns to clear the tasks away
            raise LocalProtocolError(f"{MAX_TURNS_AT_A_STAND} turns of the loop, and no time passed: some task spins")
        self._turns_at_a_stand += 1
        return []

    def _pass(self, seconds: float) -> None:
        self._turns_at_a_stand = 0
        self.passed_s += seconds
        # A sum of fractions may end just below the millisecond it stands for.
        self._below_ms += seconds * 1_000
        whole_ms = int(self._below_ms + 1e-6)
        self._below_ms -= whole_ms
        self._clock.advance(whole_ms)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self._jumping = _JumpingSelector(clock)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed_s

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002 - the name is asyncio's
        func: Callable[[*Args], Result],
        *args: *Args,
    ) -> asyncio.Future[Result]:
        """Here and now, on nobody else's time: while a thread worked, the clock would run on."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:  # noqa: BLE001 - for whoever waits for it
            done.set_exception(problem)
        return done
