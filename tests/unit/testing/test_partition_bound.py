"""testing/circuit_simulation/bound: what partitions cost at least, from their plan alone."""

import pytest

from restante.testing.circuit_simulation.bound import cut_off_ms
from support.spec.clauses import clause

PARTITIONS = ((1_000, 31_000), (61_000, 91_000))


@clause("1.7")
@pytest.mark.parametrize(
    ("accepted_at_ms", "waits_ms"),
    [(999, 0), (1_000, 30_000), (30_999, 1), (31_000, 0), (60_000, 0), (71_000, 20_000)],
)
def test_mail_between_the_halves_waits_for_the_end_of_a_partition(accepted_at_ms: int, waits_ms: int) -> None:
    assert cut_off_ms(accepted_at_ms, sides=(0, 1), partitions=PARTITIONS) == waits_ms
    assert cut_off_ms(accepted_at_ms, sides=(1, 0), partitions=PARTITIONS) == waits_ms


@clause("1.7")
def test_mail_within_a_half_need_not_wait() -> None:
    assert cut_off_ms(1_000, sides=(1, 1), partitions=PARTITIONS) == 0
