"""A backfill in a process of its own: `python backfill_process.py LAKE MASTER`. Says each step as it begins."""

import json
import sys
from dataclasses import asdict

from restante.fleet.jobs.backfill import run_backfill
from restante.fleet.lake.layout import Lake
from restante.fleet.spark.job_progress import JobProgress
from restante.policy.settings import Settings


def main(root: str, master: str) -> None:
    said: set[str] = set()

    def tell(progress: JobProgress) -> None:
        if progress.total and progress.step not in said:  # its tasks are under way
            said.add(progress.step)
            say(progress.step)

    done = run_backfill(Lake(root), Settings(), master=master, now_ms=0, tell=tell)
    say(json.dumps(asdict(done)))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
