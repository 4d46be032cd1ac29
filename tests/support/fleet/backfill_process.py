"""A backfill in a process of its own: `python backfill_process.py LAKE MASTER [published]`.

It says each step as it begins. It writes the derived tables only with the third word.
"""

import json
import sys
from dataclasses import asdict

from restante.fleet.jobs.backfill import backfill
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.segment_discovery import segments_here
from restante.fleet.spark.job_progress import JobProgress
from restante.fleet.spark.session import open_session
from restante.policy.settings import Settings


def main(root: str, master: str, published: str = "") -> None:
    said: set[str] = set()

    def tell(progress: JobProgress) -> None:
        if progress.total and progress.step not in said:  # its tasks are under way
            said.add(progress.step)
            say(progress.step)

    lake = Lake(root)
    found = segments_here(lake)
    if found is None:
        raise ValueError(f"{root} is not on this machine")
    with open_session(app_name="restante backfill", master=master) as spark:
        done = backfill(
            spark, lake, Settings(), found.segments, found.bad, is_published=published == "published", tell=tell
        )
    say(json.dumps(asdict(done)))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
