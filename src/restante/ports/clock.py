"""The host's clock."""

from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the time in Unix milliseconds."""
        ...
