"""Decides when a client looks for acks to send: a full batch at once, a small one after a second (SPEC 10.5)."""

import asyncio
from collections.abc import Callable

from restante.policy.ack_batching import AckBatching


class AckTimer:
    """Counts arrivals since the last look. It may count more than there are acks; a look too many does no harm."""

    def __init__(self, batching: AckBatching, *, on_due: Callable[[], None]) -> None:
        self._batching = batching
        self._on_due = on_due
        self._arrivals = 0
        self._timer: asyncio.TimerHandle | None = None

    def note(self, arrivals: int) -> None:
        """Call `on_due` now if a batch is full, otherwise once the oldest arrival has waited long enough."""
        self._arrivals += arrivals
        if self._arrivals >= self._batching.max_ids:
            self._on_due()
        elif self._timer is None:
            delay_s = self._batching.max_wait_ms / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_due)

    def reset(self) -> None:
        """Begin again: the acks that are pending were looked at."""
        self._arrivals = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
