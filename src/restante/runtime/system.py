"""The system's clock and randomness."""

import os
import secrets
import time
from typing import Final

_DICE_STEPS: Final = 1 << 53


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemEntropy:
    def draw(self, size: int) -> bytes:
        return os.urandom(size)

    def dice(self) -> float:
        return secrets.randbelow(_DICE_STEPS + 1) / _DICE_STEPS * 2.0 - 1.0
