"""What the simulation of a DHT found, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """So many lookups took so many rounds while this share of nodes did not answer."""

    offline: float
    rounds: int
    lookups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The share of keys lost within 30 days, with hourly repair and nodes that stay for `lifetime_h` on average."""

    copies: int
    lifetime_h: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DhtReport:
    nodes: int
    rounds: tuple[Rounds, ...]
    losses: tuple[Loss, ...]

    def offline_shares(self) -> list[float]:
        return sorted({one.offline for one in self.rounds})

    def percentile(self, offline: float, share: float) -> int:
        """Return the rounds within which this share of the lookups ended."""
        rows = sorted((one.rounds, one.lookups) for one in self.rounds if one.offline == offline)
        wanted, so_far = share * sum(lookups for _, lookups in rows), 0
        for rounds, lookups in rows:
            so_far += lookups
            if so_far >= wanted:
                return rounds
        return 0
