"""Read the lake's Delta tables with Spark: the live files only. The directory also has files that were removed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from restante.fleet.kernels.arrivals_words import UNUSABLE
from restante.fleet.lake.arrow_files import table_rows
from restante.fleet.lake.delta import DeltaFiles
from restante.fleet.lake.file_systems import escaped
from restante.fleet.lake.layout import Lake, is_object_store, spark_path
from restante.fleet.lake.segments import Segment
from restante.fleet.stream.batches import READ, Catalog, claim_of, open_segments
from restante.fleet.stream.state_tables import KINDS
from restante.fleet.tables.journal_schema import ROWS, SOURCE_FILE
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment

NEVER: Final[frozenset[str]] = frozenset()


def read_live(spark: SparkSession, lake: Lake, kind: str, *, without: frozenset[str] = NEVER) -> DataFrame:
    """The rows of a table that a stream writes (stream/state_tables); `without` names files to leave out."""
    table = KINDS[kind]
    address = f"{lake.root.rstrip('/')}/{table.folder}"
    files = DeltaFiles(address, table.delta, partition=table.partition)
    paths = [f"{table.folder}/{path}" for path in sorted(files.live())]
    return read_files(spark, lake, address, (path for path in paths if path not in without), schema_of(kind))


def schema_of(kind: str) -> StructType:
    return from_arrow_schema(KINDS[kind].delta)


def read_files(spark: SparkSession, lake: Lake, address: str, names: Iterable[str], schema: StructType) -> DataFrame:
    wanted = list(names)
    if not wanted:
        # From Arrow it is in the plan itself, and known to be empty; a list would be read by Python processes.
        return spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
    if is_object_store(lake.root):
        return table_rows(spark, lake.root, wanted, schema)
    paths = [escaped(spark_path(f"{lake.root.rstrip('/')}/{name}")) for name in wanted]
    return spark.read.schema(schema).option("basePath", escaped(spark_path(address))).parquet(*paths)


def rows_with_verdicts(spark: SparkSession, lake: Lake, catalog: Catalog) -> DataFrame:
    """Every row that the stream has read with its verdict, as transforms/validate has it; of a copy, only its id."""
    nothing = sf.lit(None)
    events = read_live(spark, lake, "events").select(
        *ROWS.names, sf.lit(RowVerdict.EVENT.value).alias("verdict"), nothing.cast("string").alias("reason")
    )
    copies = read_live(spark, lake, "repeats").select(
        *(
            sf.col(f.name) if f.name in {"event_id", SOURCE_FILE} else nothing.cast(f.dataType).alias(f.name)
            for f in ROWS
        ),
        sf.lit(RowVerdict.DUPLICATE.value).alias("verdict"),
        nothing.cast("string").alias("reason"),
    )
    quarantined = quarantined_rows(spark, lake, catalog)
    return events.unionAll(copies).unionByName(quarantined.withColumn("verdict", sf.lit(RowVerdict.QUARANTINED.value)))


def quarantined_rows(spark: SparkSession, lake: Lake, catalog: Catalog) -> DataFrame:
    """The rows that the stream put into the quarantine, without the files that it could not read.

    An arrival that cannot be used is an event, too, and is counted as one.
    """
    files = NEVER if catalog.rejected_rows is None else frozenset({catalog.rejected_rows.name})
    return read_live(spark, lake, "quarantine", without=files).filter(sf.col("reason") != UNUSABLE)


def segments_read(lake: Lake, catalog: Catalog, *, has_keys: bool = True) -> tuple[list[Segment], list[BadSegment]]:
    """The segments that the stream has read, and the files it could not read at all.

    What their signed manifests say was checked by the stream; a reader that has no operator's key does not rely on it.
    """
    unread = [one for one in catalog.rejected if not one.rows_taken]
    latest = {row["name"]: row for row in open_segments(lake).read().sort_by("n").to_pylist() if row["status"] == READ}
    without = {one.name for one in unread}
    good = [
        Segment(path=Path(name), rows=latest[name]["rows"], claim=claim_of(latest[name]) if has_keys else None)
        for name in sorted(latest)
        if name not in without
    ]
    return good, [BadSegment(name=one.name, reason=one.reason) for one in unread]
