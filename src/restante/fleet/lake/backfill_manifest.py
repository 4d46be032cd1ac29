"""What the tables of a backfill were made from, kept beside them: whoever finds the same segments may read the tables.

The record is gone before a table changes and comes back after the last one: whoever is killed in between leaves none.
Files are the same when name, size and time are; what has changed since, or was made by another version, does not count.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from restante import __version__
from restante.fleet.lake.file_systems import Listing
from restante.fleet.lake.layout import Lake, read_file, remove_file, write_file
from restante.fleet.lake.segments import Segment
from restante.fleet.transforms.prescan import RowCount
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment

RECORD: Final = "_backfill.json"  # Spark passes over such names


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRecord:
    """The verdicts on all rows of `segments`, and the files that were not read at all."""

    listing: Listing
    segments: list[Segment]
    bad: list[BadSegment]
    found: tuple[RowCount, ...]


def keep_record(spark: SparkSession, lake: Lake, record: BackfillRecord) -> None:
    """From here on the tables are what the segments of `record` say."""
    raw = {
        "version": __version__,
        "listing": record.listing,
        "segments": {segment.path.name: segment.rows for segment in record.segments},
        "bad": {file.name: file.reason for file in record.bad},
        "found": [[one.source_file, one.verdict, one.reason, one.rows] for one in record.found],
    }
    write_file(spark, _path(lake), json.dumps(raw).encode())


def forget_record(spark: SparkSession, lake: Lake) -> None:
    """The tables are about to change."""
    remove_file(spark, _path(lake))


def record_of(spark: SparkSession, lake: Lake, listing: Listing) -> BackfillRecord | None:
    """The record of the tables, if they were made from exactly these files."""
    try:
        said = json.loads(read_file(spark, _path(lake)) or b"{}")
        return _decoded(said, listing) if said["version"] == __version__ else None
    except (ValueError, KeyError, TypeError, AttributeError, Py4JJavaError):
        return None  # none there, not ours, damaged or not to be read: the segments tell the same


def _decoded(said: dict[str, Any], listing: Listing) -> BackfillRecord | None:
    if {name: tuple(seen) for name, seen in said["listing"].items()} != listing:
        return None
    return BackfillRecord(
        listing=listing,
        segments=[Segment(path=Path(name), rows=rows) for name, rows in said["segments"].items()],
        bad=[BadSegment(name=name, reason=reason) for name, reason in said["bad"].items()],
        found=tuple(
            RowCount(source_file=file, verdict=RowVerdict(verdict), reason=reason, rows=rows)
            for file, verdict, reason, rows in said["found"]
        ),
    )


def _path(lake: Lake) -> str:
    return f"{lake.tables}/{RECORD}"
