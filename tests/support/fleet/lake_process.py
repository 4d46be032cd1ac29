"""Jobs on lakes in a process with a Spark of its own: `python lake_process.py MASTER JOB LAKE [JOB LAKE]...`.

A job is stream, published-stream, backfill or report. Each prints a line of JSON.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from restante.fleet import StreamOptions, backfill, report, start_stream
from restante.fleet.spark.session import open_session


def main(master: str, *words: str) -> None:
    with open_session(app_name="jobs on lakes", master=master) as spark:
        for job, lake in zip(words[::2], words[1::2], strict=True):
            sys.stdout.write(json.dumps(run(spark, job, lake)) + "\n")
            sys.stdout.flush()


def run(spark: SparkSession, job: str, lake: str) -> Any:
    match job:
        case "stream" | "published-stream":
            options = StreamOptions(once=True, buckets=2, files_per_batch=4, is_published=job != "stream")
            done = start_stream(spark, lake, options=options).await_end()
            return {"batches": done.batches, "rows": done.rows}
        case "backfill":
            return {"events": backfill(spark, lake).events}
        case "report":
            found = report(spark, lake)
            return {"read_from": found.read_from, "total": asdict(found.conservation.total)}
        case _:
            raise ValueError(f"{job} is no job")


if __name__ == "__main__":
    main(*sys.argv[1:])
