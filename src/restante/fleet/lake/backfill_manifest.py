"""A record beside the tables of a backfill: which segments they were made from, and how many rows got which verdict.

A report reads the tables only if the directory of segments still has exactly these files, by name, size and time. The
backfill deletes the record before a table changes and writes it after the last one.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from restante import __version__
from restante.core.fleet.enrolment import Enrolment
from restante.fleet.lake.file_systems import Listing
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import create_file, delete_file, read_small_file
from restante.fleet.lake.segments import Segment
from restante.fleet.transforms.prescan import RowCount
from restante.fleet.transforms.validate import RowVerdict
from restante.model.conservation_report import BadSegment
from restante.model.provenance import SegmentClaim

RECORD: Final = "_backfill.json"  # Spark passes over such names


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRecord:
    """The verdicts on all rows of `segments`, and the files that were not read at all."""

    listing: Listing
    segments: list[Segment]
    bad: list[BadSegment]
    found: tuple[RowCount, ...]
    enrolment: Enrolment | None = None


def keep_record(lake: Lake, record: BackfillRecord) -> None:
    """From here on the tables are what the segments of `record` say."""
    raw = {
        "version": __version__,
        "listing": record.listing,
        "enrolled": None if record.enrolment is None else sorted(record.enrolment.keys),
        "segments": {segment.path.name: segment.rows for segment in record.segments},
        "claims": [asdict(segment.claim) for segment in record.segments if segment.claim is not None],
        "bad": {file.name: file.reason for file in record.bad},
        "found": [[one.source_file, one.verdict, one.reason, one.rows] for one in record.found],
    }
    with create_file(lake.tables, RECORD) as file:
        file.write(json.dumps(raw).encode())


def forget_record(lake: Lake) -> None:
    """The tables are about to change."""
    delete_file(lake.tables, RECORD)


def record_of(lake: Lake, listing: Listing, enrolment: Enrolment | None) -> BackfillRecord | None:
    """The record of the tables, if they were made from exactly these files with the same keys enrolled."""
    try:
        said = json.loads(read_small_file(lake.tables, RECORD) or b"{}")
        record = _decoded(said, listing) if said["version"] == __version__ else None
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return None  # none there, not ours, damaged or not to be read: the segments tell the same
    return record if record is not None and record.enrolment == enrolment else None


def _decoded(said: dict[str, Any], listing: Listing) -> BackfillRecord | None:
    if {name: tuple(seen) for name, seen in said["listing"].items()} != listing:
        return None
    claims = {one["segment"]: SegmentClaim(**one) for one in said["claims"]}
    enrolled = said["enrolled"]
    return BackfillRecord(
        listing=listing,
        enrolment=None if enrolled is None else Enrolment(frozenset(enrolled)),
        segments=[
            Segment(path=Path(name), rows=rows, claim=claims.get(name)) for name, rows in said["segments"].items()
        ],
        bad=[BadSegment(name=name, reason=reason) for name, reason in said["bad"].items()],
        found=tuple(
            RowCount(source_file=file, verdict=RowVerdict(verdict), reason=reason, rows=rows)
            for file, verdict, reason, rows in said["found"]
        ),
    )
