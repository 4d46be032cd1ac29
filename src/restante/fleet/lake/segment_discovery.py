"""List the segments of a lake, before Spark starts where possible, so that a wrong path fails at once."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from restante.core.fleet.enrolment import Enrolment
from restante.fleet.lake.file_systems import Listing, open_folder
from restante.fleet.lake.layout import Lake, is_here
from restante.fleet.lake.segments import Segment, find_segments
from restante.model.conservation_report import BadSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The segments of a directory, the files that only look like one, and what was there before anybody looked."""

    segments: list[Segment]
    bad: list[BadSegment]
    listing: Listing = field(default_factory=dict)


def found_in(directory: str, spark: SparkSession | None = None, *, enrolment: Enrolment | None = None) -> Found:
    """What comes while this looks makes the listing another one than the next: it is listed first."""
    listing = open_folder(directory, spark).listing()
    segments, bad = find_segments(directory, spark, enrolment=enrolment)
    return Found(segments=segments, bad=bad, listing=listing)


def segments_here(lake: Lake, enrolment: Enrolment | None = None) -> Found | None:
    """None for a lake that is not on this machine."""
    return found_in(lake.segments, enrolment=enrolment) if is_here(lake.segments) else None


def segments_of(lake: Lake, spark: SparkSession, enrolment: Enrolment | None = None) -> Found:
    """Through Spark where they are elsewhere."""
    return found_in(lake.segments, spark, enrolment=enrolment)
