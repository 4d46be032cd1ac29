"""Synthetic journals as a DataFrame: the events of kernels/synthetic_journals, numbered for each writer.

The same seed gives the same events on any number of machines. The numbers of each writer's events have no gaps.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.kernels.synthetic_journals import UNNUMBERED, journals_of
from restante.fleet.spark.map_in_arrow import BatchFunction
from restante.fleet.tables.journal_schema import JOURNAL


def recipients_events(spark: SparkSession, scenario: Scenario) -> DataFrame:
    """What recipients wrote of arrivals, in columns of the journal: one row for each copy that arrived."""
    return _numbered(_events(spark, scenario, only_arrivals=True))


def all_events(spark: SparkSession, scenario: Scenario) -> DataFrame:
    """The whole journals of senders, nodes and recipients."""
    return _numbered(_events(spark, scenario, only_arrivals=False))


def _events(spark: SparkSession, scenario: Scenario, *, only_arrivals: bool) -> DataFrame:
    messages = spark.range(scenario.messages)
    return messages.mapInArrow(_made_of(scenario, only_arrivals=only_arrivals), from_arrow_schema(UNNUMBERED))


def _made_of(scenario: Scenario, *, only_arrivals: bool) -> BatchFunction:
    def make(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            messages = batch.column("id").to_numpy(zero_copy_only=False)
            yield from journals_of(scenario, messages, only_arrivals=only_arrivals).to_batches()

    return make


def _numbered(events: DataFrame) -> DataFrame:
    """Each writer's events get their numbers in order of time."""
    in_order = Window.partitionBy("writer").orderBy("at_ms", "session_tag", "message_id", "kind", "payload_hash")
    number = sf.lpad(sf.hex(sf.row_number().over(in_order).cast("long")), 16, "0")
    event_id = sf.concat(sf.substring("writer", 1, 8), sf.unhex(number))
    return events.withColumn("event_id", event_id).select(*JOURNAL.fieldNames())
