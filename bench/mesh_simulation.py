"""The simulated mesh at full size: lookups among 1,000 and 10,000 nodes, and a day of 1,000 nodes with churn.

`python -m bench.mesh_simulation --seeds 101 102` runs these seeds of the day and keeps the rows of others.
"""

import argparse
import resource
import time
from typing import Final

from bench.results import Table, bar, with_earlier_rows, write_results
from restante.testing.mesh_simulation import MeshSettings, MeshSimulation, Partition, simulate_lookups

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
A_DAY: Final = MeshSettings(
    nodes=1_000,
    recipients=500,
    messages=30_000,
    sending_ms=24 * HOUR_MS,
    total_ms=52 * HOUR_MS,
    churn_per_hour=0.2,
    churn_ms=24 * HOUR_MS,
    partition=Partition(from_ms=630 * MINUTE_MS, until_ms=810 * MINUTE_MS),
)
"""Nodes crash for good with their disks, 20 % an hour for 24 h; in the middle the mesh is two halves for 3 h. The hours
after the day are for the second reads, 24 h after each bucket's end."""
SEEDS: Final = range(101, 111)
LOOKUPS: Final = {1_000: (2, 5), 10_000: (3, 6)}
"""By number of nodes: the most rounds of the median lookup and of 99 %."""
MOST_GB: Final = 4


def measure_lookups() -> Table:
    table = Table(
        "Lookups, 10 % of the nodes dead and still in the tables",
        ["nodes", "rounds P50", "rounds P99", "bar", "closest found", "requests each", "peak memory MB", "bar "],
    )
    for nodes, (median, most) in LOOKUPS.items():
        result = simulate_lookups(nodes, lookups=500, seed=17, dead=0.1)
        p50, p99 = result.quantile(0.5), result.quantile(0.99)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        table.add(
            [
                f"{nodes:,}",
                str(p50),
                str(p99),
                bar(p50 <= median and p99 <= most, f"at most {median} and {most}"),
                f"{result.found_closest} of {len(result.rounds)}",
                f"{result.asked / len(result.rounds):.1f}",
                f"{peak_mb:,.0f}",
                bar(peak_mb <= MOST_GB * 1_024, f"at most {MOST_GB} GB"),
            ]
        )
    return table


def simulate_day(seed: int) -> Table:
    table = Table(
        "A day of 1,000 nodes: 20 % crash for good every hour, 3 h in two halves, 30,000 messages",
        ["seed", "read", "lost", "unread", "wrongly finalized", "unsent", "crashes", "copied", "processor min", "bar"],
    )
    print(f"seed {seed}: {A_DAY}", flush=True)
    began = time.process_time()
    result = MeshSimulation(A_DAY, seed).run()
    passed = result.is_balanced and result.read == A_DAY.messages and not result.wrongly_finalized
    counted = (result.read, result.lost, result.unread, result.wrongly_finalized, result.unsent)
    minutes = (time.process_time() - began) / 60
    table.add(
        [str(seed), *(f"{each:,}" for each in (*counted, result.crashes, result.copied)), f"{minutes:.1f}", bar(passed)]
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--no-lookups", action="store_true")
    given = parser.parse_args()
    if not given.no_lookups:
        lookups = measure_lookups()
        print(lookups.as_text(), flush=True)
        write_results("mesh_simulation", [lookups])
    for seed in given.seeds:
        day = simulate_day(seed)
        print(day.as_text(), flush=True)
        write_results("mesh_simulation", [with_earlier_rows("mesh_simulation", day)])


if __name__ == "__main__":
    main()
