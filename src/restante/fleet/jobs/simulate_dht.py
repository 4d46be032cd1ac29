"""Simulate a large DHT on Spark: rounds of lookups, and how much is lost with 3 and 5 copies under churn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from restante.fleet.kernels.dht_simulation import lookup_rounds, lost_share, node_ids
from restante.fleet.spark.session import open_session
from restante.model.dht_simulation import DhtReport, Loss, Rounds
from restante.model.setting_ranges import check_ranges, ranged

OFFLINE_SHARES: Final = (0.0, 0.1, 0.3, 0.5)
COPIES: Final = (3, 5)
LIFETIMES_H: Final = (1.0, 3.0, 12.0, 48.0)
REPAIR_H: Final = 1.0
LOOKUPS_PER_TASK: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DhtScenario:
    nodes: int = ranged(1_000_000, low=2, high=20_000_000, unit="nodes", clause="7.2")
    lookups: int = ranged(100_000, low=1, high=100_000_000, unit="lookups", clause="7.2")
    keys: int = ranged(100_000, low=1, high=100_000_000, unit="keys", clause="7.4")
    seed: int = ranged(7, low=0, high=2**31 - 1, unit="", clause="13.2")

    def __post_init__(self) -> None:
        check_ranges(self, "simulation")


def run_simulation(scenario: DhtScenario, *, master: str = "local[*]") -> DhtReport:
    """Simulate in a new Spark session."""
    with open_session(app_name="restante simulate dht", master=master) as spark:
        return simulate(spark, scenario)


def simulate(spark: SparkSession, scenario: DhtScenario) -> DhtReport:
    tasks = max(2, -(-scenario.lookups // LOOKUPS_PER_TASK))
    schema = "offline double, rounds bigint, lookups bigint"
    rows = (
        spark.range(0, tasks, numPartitions=min(tasks, spark.sparkContext.defaultParallelism))
        .mapInArrow(_rounds(scenario, tasks), schema)
        .groupBy("offline", "rounds")
        .agg(sf.sum("lookups").alias("lookups"))
        .orderBy("offline", "rounds")
        .collect()
    )
    rng = np.random.default_rng(scenario.seed)
    losses = [
        Loss(
            copies=copies,
            lifetime_h=lifetime_h,
            share=lost_share(
                copies, keys=scenario.keys, lifetime_h=lifetime_h, repair_h=REPAIR_H, hours=24 * 30, rng=rng
            ),
        )
        for copies in COPIES
        for lifetime_h in LIFETIMES_H
    ]
    return DhtReport(
        nodes=scenario.nodes,
        rounds=tuple(Rounds(offline=row["offline"], rounds=row["rounds"], lookups=row["lookups"]) for row in rows),
        losses=tuple(losses),
    )


def _rounds(scenario: DhtScenario, tasks: int) -> Any:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        ids = node_ids(scenario.nodes, scenario.seed)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                rng = np.random.default_rng([scenario.seed, task])
                count = scenario.lookups // tasks + (task < scenario.lookups % tasks)
                targets = rng.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True)
                for offline in OFFLINE_SHARES:
                    found = np.bincount(lookup_rounds(ids, targets, offline=offline, rng=rng))
                    places = np.flatnonzero(found)
                    yield pa.RecordBatch.from_pydict(
                        {
                            "offline": pa.array([offline] * len(places), pa.float64()),
                            "rounds": pa.array(places, pa.int64()),
                            "lookups": pa.array(found[places], pa.int64()),
                        }
                    )

    return run
