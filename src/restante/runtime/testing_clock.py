"""The section `[testing]` of a node's or client's settings: a clock that tests of real processes move.

Only a directory that was made for tests may have it, so that no forgotten setting moves the clock of a real one.
"""

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final

from restante.model.errors import ConfigurationInvalid
from restante.ports.clock import Clock
from restante.runtime.system import OffsetClock, SystemClock

TESTING: Final = "testing"
MADE_FOR_TESTS: Final = "made-for-tests"
"""A file of this name allows the section. 'node init --for-tests' and 'id new --for-tests' make it."""
MAX_CLOCK_OFFSET_MS: Final = 400 * 86_400_000


def take_clock_offset(tables: MutableMapping[str, Any], *, source: str, directory: Path | None) -> int:
    """Take [testing] out of the tables and return its offset. Raises `ConfigurationInvalid` unless the directory was
    made for tests; None is none."""
    if TESTING not in tables:
        return 0
    if directory is None or not (directory / MADE_FOR_TESTS).is_file():
        raise ConfigurationInvalid(
            f"[{TESTING}] is only for a directory that was made for tests: 'restante node init --for-tests' and "
            f"'restante id new --for-tests' make one ({source})"
        )
    testing = tables.pop(TESTING)
    offset_ms = testing.pop("clock_offset_ms", 0) if isinstance(testing, dict) else None
    if testing or not isinstance(offset_ms, int) or abs(offset_ms) > MAX_CLOCK_OFFSET_MS:
        raise ConfigurationInvalid(
            f"[{TESTING}] has one setting, clock_offset_ms: "
            f"a number in -{MAX_CLOCK_OFFSET_MS}..{MAX_CLOCK_OFFSET_MS} ({source})"
        )
    return offset_ms


def moved_clock(offset_ms: int) -> Clock:
    return OffsetClock(offset_ms) if offset_ms else SystemClock()
