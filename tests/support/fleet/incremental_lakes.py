"""Lakes that a stream brings up to date part by part, and their tables as values that can be compared."""

import threading
from collections import Counter
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from restante.fleet.jobs.stream import StreamOptions, start_stream
from restante.fleet.kernels.synthetic_fleet import Scenario
from restante.fleet.kernels.synthetic_journals import journals_of
from restante.fleet.lake.layout import Lake
from restante.fleet.tables.derived_tables import DERIVED
from restante.model.ids import WriterId, event_id
from restante.policy.settings import Settings
from restante.wire.journal_schema import from_record
from support.fleet.journal_files import Journal

COMPARED = [table for table in DERIVED if table.name != "actions"]
"""Actions are for another time, and of signed segments."""


def update(spark: SparkSession, lake: Lake, *, is_published: bool = True) -> int:
    options = StreamOptions(once=True, buckets=2, is_published=is_published)
    return start_stream(spark, lake, Settings(), options).await_end(threading.Event()).n


def plain(rows: DataFrame) -> Counter[str]:
    return Counter(
        str(sorted((name, _text(value)) for name, value in row.asDict(True).items())) for row in rows.collect()
    )


def generated_journals(scenario: Scenario) -> list[Journal]:
    """The journals of a synthetic fleet, each writer's events numbered in order of time."""
    rows = journals_of(scenario, np.arange(scenario.messages)).sort_by("at_ms").to_pylist()
    journals: dict[bytes, Journal] = {}
    for row in rows:
        journal = journals.setdefault(row["writer"], Journal(WriterId(row["writer"])))
        number = event_id(journal.writer, len(journal.rows) + 1)
        journal.rows.append(from_record({"event_id": number, **row}))
    return list(journals.values())


def _text(value: Any) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
