"""Simulate lookups and stored copies in a DHT of any size on Spark: batches of both in `mapInArrow`, sums here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.fleet.kernels.dht_availability import COPIES, surviving
from restante.fleet.kernels.dht_lookups import run_batch
from restante.fleet.kernels.dht_network import network
from restante.fleet.spark.job_progress import Watcher, ignore_progress, watched
from restante.fleet.spark.session import open_session
from restante.model.dht_simulation import Availability, DhtSimulation
from restante.model.setting_ranges import check_ranges, ranged

LOOKUPS_PER_BATCH: Final = 500
BLOBS_PER_BATCH: Final = 20_000
_LOOKUPS: Final = "rounds long, requests long, found_closest boolean, found_all boolean"
_COPIES: Final = "copies int, is_repaired boolean, hour int, left long"


@dataclass(frozen=True, slots=True, kw_only=True)
class DhtScenario:
    """The network, the searches in it, and the copies stored in it."""

    nodes: int = ranged(1_000_000, low=2, high=50_000_000, unit="nodes", clause="7.1")
    lookups: int = ranged(10_000, low=1, high=10_000_000, unit="lookups", clause="7.1")
    dead: float = ranged(0.1, low=0.0, high=0.9, unit="share", clause="7.1")
    """Share of nodes that tables still name and that do not answer."""
    churn: float = ranged(0.2, low=0.0, high=1.0, unit="share", clause="7.9")
    """Share of nodes that leave in an hour."""
    blobs: int = ranged(200_000, low=1, high=1_000_000_000, unit="blobs", clause="7.3")
    hours: int = ranged(168, low=1, high=720, unit="hours", clause="7.3")
    seed: int = ranged(7, low=0, high=2**31 - 1, unit="", clause="13.2")

    def __post_init__(self) -> None:
        check_ranges(self, "simulation")


def run_simulation(
    scenario: DhtScenario, *, master: str = "local[*]", tell: Watcher = ignore_progress
) -> DhtSimulation:
    """Run the simulation in a new Spark session."""
    with open_session(app_name="restante simulate dht", master=master) as spark:
        return simulate_dht(spark, scenario, tell=tell)


def simulate_dht(spark: SparkSession, scenario: DhtScenario, *, tell: Watcher = ignore_progress) -> DhtSimulation:
    """Run the simulation. The same seed gives the same result on any number of machines."""
    with watched(spark, "lookups", tell):
        found = _lookups(spark, scenario).groupBy("rounds", "requests", "found_closest", "found_all").count().collect()
    with watched(spark, "copies", tell):
        left = _copies(spark, scenario).groupBy("copies", "is_repaired", "hour").agg(sf.sum("left").alias("left"))
        counts = {(row["copies"], row["is_repaired"], row["hour"]): row["left"] for row in left.collect()}
    return DhtSimulation(
        nodes=scenario.nodes,
        lookups=scenario.lookups,
        dead=scenario.dead,
        churn=scenario.churn,
        seed=scenario.seed,
        rounds=_counts(found, "rounds"),
        requests=_counts(found, "requests"),
        found_closest=sum(row["count"] for row in found if row["found_closest"]),
        found_all=sum(row["count"] for row in found if row["found_all"]),
        availability=tuple(
            Availability(
                copies=copies,
                is_repaired=is_repaired,
                shares=tuple(counts[copies, is_repaired, hour] / scenario.blobs for hour in range(scenario.hours + 1)),
            )
            for copies in COPIES
            for is_repaired in (True, False)
        ),
    )


def _lookups(spark: SparkSession, scenario: DhtScenario) -> DataFrame:
    nodes, dead, seed, total = scenario.nodes, scenario.dead, scenario.seed, scenario.lookups

    def search(batches: Iterator[Any]) -> Iterator[Any]:
        for first in _numbers(batches):
            numbers = np.arange(first * LOOKUPS_PER_BATCH, min((first + 1) * LOOKUPS_PER_BATCH, total))
            yield pa.RecordBatch.from_pydict(run_batch(network(nodes, dead=dead, seed=seed), numbers))

    return _batches(spark, -(-total // LOOKUPS_PER_BATCH)).mapInArrow(search, _LOOKUPS)


def _copies(spark: SparkSession, scenario: DhtScenario) -> DataFrame:
    churn, hours, total, seed = scenario.churn, scenario.hours, scenario.blobs, scenario.seed

    def age(batches: Iterator[Any]) -> Iterator[Any]:
        for first in _numbers(batches):
            blobs = min(BLOBS_PER_BATCH, total - first * BLOBS_PER_BATCH)
            for copies in COPIES:
                for is_repaired in (True, False):
                    left = surviving(
                        blobs,
                        copies=copies,
                        churn=churn,
                        hours=hours,
                        is_repaired=is_repaired,
                        seed=[seed, first, copies, int(is_repaired)],
                    )
                    yield pa.RecordBatch.from_pydict(
                        {
                            "copies": pa.array([copies] * len(left), pa.int32()),
                            "is_repaired": pa.array([is_repaired] * len(left)),
                            "hour": pa.array(np.arange(len(left)), pa.int32()),
                            "left": pa.array(left),
                        }
                    )

    return _batches(spark, -(-total // BLOBS_PER_BATCH)).mapInArrow(age, _COPIES)


def _batches(spark: SparkSession, count: int) -> DataFrame:
    """One row for each batch, in a few tasks for each core, so that progress can be seen."""
    return spark.range(0, count, 1, min(count, 8 * spark.sparkContext.defaultParallelism))


def _numbers(batches: Iterator[Any]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column("id").to_pylist()


def _counts(rows: list[Any], name: str) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for row in rows:
        counts[row[name]] = counts.get(row[name], 0) + row["count"]
    return tuple(sorted(counts.items()))
