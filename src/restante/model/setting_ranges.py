"""Settings with the range each must stay in.

A settings class declares its fields with `ranged(...)` and calls `check_ranges(self)` in `__post_init__`. So no
instance can hold a value outside its range.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from restante.model.errors import OutOfRange

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Range:
    """The inclusive range of a setting, its unit and its SPEC clause."""

    low: float
    high: float
    unit: str
    clause: str


def ranged(default: Number, *, low: Number, high: Number, unit: str, clause: str) -> Number:
    """Declare a dataclass field with a default and an inclusive range."""
    made: Number = field(default=default, metadata={"range": Range(low, high, unit, clause)})
    return made


def ranges_of(settings: Any) -> Iterator[tuple[Field[Any], Range]]:
    """Yield the ranged fields of a settings object or class, in order."""
    for declared in fields(settings):
        allowed = declared.metadata.get("range")
        if isinstance(allowed, Range):
            yield declared, allowed


def check_ranges(settings: Any, section: str) -> None:
    """Raise `OutOfRange` for the first value outside its range. The error names the key as in a configuration file."""
    for declared, allowed in ranges_of(settings):
        value = getattr(settings, declared.name)
        if not allowed.low <= value <= allowed.high:
            raise OutOfRange(f"{section}.{declared.name}", value, low=allowed.low, high=allowed.high, unit=allowed.unit)
