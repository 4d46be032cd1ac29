"""The segments of a lake, found before Spark is started where that can be, so that a wrong path is told at once."""

from pyspark.sql import SparkSession

from restante.fleet.lake import Lake, is_here
from restante.fleet.segments import BadSegment, Segment, find_segments

Found = tuple[list[Segment], list[BadSegment]]


def segments_here(lake: Lake) -> Found | None:
    """None for a lake that is not on this machine."""
    return find_segments(lake.segments) if is_here(lake.segments) else None


def segments_of(lake: Lake, spark: SparkSession) -> Found:
    """Through Spark where they are elsewhere."""
    return find_segments(lake.segments, spark)
