"""What a simulation of a large DHT found, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The share of blobs with a copy left after each hour, from hour 0."""

    copies: int
    is_repaired: bool
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DhtSimulation:
    """`rounds` and `requests` count lookups by their number of rounds and of requests. `churn` is per hour."""

    nodes: int
    lookups: int
    dead: float
    churn: float
    seed: int
    rounds: tuple[tuple[int, int], ...]
    requests: tuple[tuple[int, int], ...]
    found_closest: int
    found_all: int
    availability: tuple[Availability, ...]


def quantile(counts: tuple[tuple[int, int], ...], share: float) -> int:
    """Return the smallest value that at least this share of the counted ones does not exceed."""
    total, reached = sum(count for _, count in counts), 0
    for value, count in counts:
        reached += count
        if reached >= share * total:
            return value
    return 0
