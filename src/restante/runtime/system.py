"""The system's clock and randomness."""

import os
import secrets
import time
from typing import Final

_DICE_STEPS: Final = 1 << 53


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class OffsetClock:
    """The system's clock, moved by a fixed time: for tests of real processes (section [testing])."""

    def __init__(self, offset_ms: int) -> None:
        self._offset_ms = offset_ms
        self._clock = SystemClock()

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._offset_ms


class SystemEntropy:
    def draw(self, size: int) -> bytes:
        return os.urandom(size)

    def dice(self) -> float:
        return secrets.randbelow(_DICE_STEPS + 1) / _DICE_STEPS * 2.0 - 1.0
