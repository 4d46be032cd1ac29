"""Numbers that configuration may change, each with the range it must stay in.

A settings class declares its fields with `ranged(...)` and calls `check_ranges(self)` when it is made, so a value
outside its range cannot exist, wherever it came from.
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from restante.model.errors import OutOfRange

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float
    unit: str
    clause: str


def ranged(default: Number, *, low: Number, high: Number, unit: str, clause: str) -> Number:
    """A dataclass field with a default and an inclusive range."""
    made: Number = field(default=default, metadata={"range": Range(low, high, unit, clause)})
    return made


def ranges_of(settings: Any) -> Iterator[tuple[Field[Any], Range]]:
    """The ranged fields of a settings object or class, in order."""
    for declared in fields(settings):
        allowed = declared.metadata.get("range")
        if isinstance(allowed, Range):
            yield declared, allowed


def check_ranges(settings: Any, section: str) -> None:
    """Refuse the first value outside its range, naming its key as a configuration file would."""
    for declared, allowed in ranges_of(settings):
        value = getattr(settings, declared.name)
        if not allowed.low <= value <= allowed.high:
            raise OutOfRange(f"{section}.{declared.name}", value, low=allowed.low, high=allowed.high, unit=allowed.unit)
