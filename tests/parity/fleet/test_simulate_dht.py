"""The DHT simulation on Spark: the same result for the same seed, and a page and a table of it."""

import io

from pyspark.sql import SparkSession
from rich.console import Console

from restante.fleet.jobs.simulate_dht import DhtScenario, simulate_dht
from restante.model.dht_simulation import quantile
from restante.views.dht_simulation import print_simulation, simulation_page
from support.spec.clauses import clause

SMALL = DhtScenario(nodes=5_000, lookups=600, blobs=25_000, hours=24, seed=3)


@clause("7.1", "7.3", "7.9")
def test_a_seed_gives_one_result_with_few_rounds_and_lasting_copies(spark: SparkSession) -> None:
    found = simulate_dht(spark, SMALL)
    assert found == simulate_dht(spark, SMALL)
    assert sum(count for _, count in found.rounds) == 600
    assert quantile(found.rounds, 0.5) <= 4
    assert found.found_closest >= 590
    last = {(one.copies, one.is_repaired): one.shares[-1] for one in found.availability}
    assert last[5, True] > 0.98 > last[3, True] > 0.7 > last[5, False] > last[3, False]

    shown = io.StringIO()
    print_simulation(Console(file=shown, width=120), found)
    assert "600 lookups among 5,000 nodes" in shown.getvalue()
    assert "after 24 h" in shown.getvalue()
    page = simulation_page(found)
    assert page.count("<svg") == 2
    assert "<script" not in page
