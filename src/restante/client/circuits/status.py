"""What people and tests see of a client's circuits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitStatus:
    """One circuit as people see it."""

    hops: tuple[str, ...]
    use: str
    streams: int
    age_ms: int
    build_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    circuits: tuple[CircuitStatus, ...]
    built: int
    failures: dict[str, int]
    """Failed builds by the hop at which they failed."""
    silent: int
    """Built circuits that were given up because nothing came over them any more."""
    build_timeout_ms: int
    build_median_ms: int | None
