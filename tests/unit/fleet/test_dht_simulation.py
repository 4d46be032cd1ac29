"""The simulated DHT: rounds grow with the logarithm of its nodes, and more copies lose less."""

import numpy as np
import pytest

from restante.fleet.kernels.dht_simulation import BUCKET, lookup_rounds, lost_share, node_ids
from restante.model.dht_simulation import DhtReport, Rounds


def rounds(nodes: int, *, offline: float = 0.0, lookups: int = 2_000) -> np.ndarray:
    rng = np.random.default_rng(3)
    targets = rng.integers(0, 2**64 - 1, lookups, dtype=np.uint64, endpoint=True)
    return lookup_rounds(node_ids(nodes, 1), targets, offline=offline, rng=rng)


def test_a_network_that_fits_into_one_bucket_is_known_whole() -> None:
    assert rounds(BUCKET).max() <= 1


def test_rounds_grow_with_the_logarithm_of_the_nodes() -> None:
    small, large = rounds(1_000).mean(), rounds(100_000).mean()
    assert 1 < small < large < 2 * small + 1
    assert rounds(100_000).max() < 12


def test_nodes_that_do_not_answer_cost_rounds_and_no_lookup_is_left() -> None:
    assert rounds(10_000).mean() <= rounds(10_000, offline=0.5).mean() < 3 * rounds(10_000).mean()


@pytest.mark.parametrize("lifetime_h", [2.0, 12.0])
def test_more_copies_and_longer_lives_lose_less(lifetime_h: float) -> None:
    rng = np.random.default_rng(1)

    def lost(copies: int, stays_h: float) -> float:
        return lost_share(copies, keys=20_000, lifetime_h=stays_h, repair_h=1.0, hours=72.0, rng=rng)

    assert lost(5, lifetime_h) < lost(3, lifetime_h) < lost(1, lifetime_h)
    assert lost(3, 4 * lifetime_h) < lost(3, lifetime_h)
    dies = -np.expm1(-1.0 / lifetime_h)
    assert lost(3, lifetime_h) == pytest.approx(1 - (1 - dies**3) ** 72, rel=0.15)


def test_percentiles_are_those_of_the_counted_lookups() -> None:
    report = DhtReport(
        nodes=9,
        rounds=tuple(Rounds(offline=0.0, rounds=n, lookups=k) for n, k in ((3, 50), (4, 49), (9, 1))),
        losses=(),
    )
    assert [report.percentile(0.0, share) for share in (0.5, 0.99, 1.0)] == [3, 4, 9]
