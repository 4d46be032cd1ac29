"""Arrow tables that the driver hands to Spark keep all their rows."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from restante.fleet.jobs.publication import Publication
from restante.fleet.lake.layout import Lake
from restante.fleet.tables.table import Made
from restante.policy.dead_letters import DeadLetterRetention
from support.spec.clauses import clause


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0, 1), (0, 5, 2, 0, 1, 0, 1, 0)])
@clause("13.2")
def test_an_empty_chunk_hides_no_rows_behind_it(spark: SparkSession, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    made = Made(events=spark.range(0).toDF("n"), now_ms=0, retention=DeadLetterRetention(), partitions=1)
    work = Publication(spark, Lake(str(tmp_path)), made, live={}, keep=lambda rows: rows, batch=1)
    chunks = [pa.table({"n": pa.array([at] * size, pa.int64())}) for at, size in enumerate(sizes)]
    rows = work.frame(pa.concat_tables(chunks), "n long").collect()
    assert sorted(row["n"] for row in rows) == [at for at, size in enumerate(sizes) for _ in range(size)]
