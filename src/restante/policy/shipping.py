"""How often a journal leaves for the fleet, and when it is tried again where it could not (SPEC 13.1)."""

from dataclasses import dataclass
from typing import Final

from restante.model.setting_ranges import check_ranges, ranged
from restante.policy.retry import RetrySchedule, jittered_delay_ms

DAY_MS: Final = 86_400_000
SHIPPING_RETRY: Final = RetrySchedule(max_delay_ms=300_000)
"""As for messages, but never an hour: whoever repaired the place wants to see the facts come. Nothing is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalShipping:
    """A minute, so that a fleet's tables are about a minute behind; shorter makes more and smaller files."""

    ship_every_ms: int = ranged(60_000, low=100, high=DAY_MS, unit="ms", clause="13.1")

    def __post_init__(self) -> None:
        check_ranges(self, "journal")


def next_shipping_ms(shipping: JournalShipping, *, failures: int, dice: float) -> int:
    """How long to wait after shipping, which has failed so many times in a row."""
    if not failures:
        return shipping.ship_every_ms
    return jittered_delay_ms(SHIPPING_RETRY, attempt=failures, dice=dice)
