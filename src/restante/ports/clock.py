"""The time, as the hosts see it."""

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Unix milliseconds."""
        ...
