"""asyncio with virtual time: when every task waits, time jumps to the first timer, and the fake clock with it.

An hour of timeouts and retries takes only the time of its computation, and equal seeds give equal runs. All waits must
be timers or other tasks; a socket would be too slow for the clock. Work for a thread is done at once.
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
    """Run `main` and return its result. `clock` moves with the event loop's time."""
    with asyncio.Runner(loop_factory=lambda: _JumpingLoop(clock)) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    """Returns at once instead of waiting, and moves the time by the timeout."""

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
            raise LocalProtocolError("deadlock: every task waits for another one and no timer is set")
        if timeout > 0:
            self._pass(timeout)
        elif self._turns_at_a_stand == MAX_TURNS_AT_A_STAND:
            self._turns_at_a_stand = 0  # the runner still needs some turns to cancel the tasks
            raise LocalProtocolError(f"{MAX_TURNS_AT_A_STAND} turns of the loop without a timer: some task spins")
        self._turns_at_a_stand += 1
        return []

    def _pass(self, seconds: float) -> None:
        self._turns_at_a_stand = 0
        self.passed_s += seconds
        # Round, because a sum of fractions may end just below a millisecond.
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
        """Run the function at once: in a thread, virtual time would pass during its work."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as problem:  # noqa: BLE001 - passed to the awaiting task
            done.set_exception(problem)
        return done
