"""What signed segments of earlier batches claimed, as the table `segments` has it for ever: also of deleted days."""

from bisect import bisect_right
from collections.abc import Iterable

import pyarrow.compute as pc

from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import READ, claim_of, open_segments
from restante.model.ids import EventId, event_number

_WRITERS_BYTES = 8  # of an event id, see model.ids.event_id


def signed_before(lake: Lake, names: frozenset[str]) -> frozenset[str]:
    """Return which of these segments an enrolled key had signed when a batch read them."""
    is_one = pc.field("name").isin(sorted(names)) & (pc.field("status") == READ)
    rows = open_segments(lake).read(["n", "name", "claim"], is_one).sort_by("n")
    latest = dict(zip(rows["name"].to_pylist(), rows["claim"].to_pylist(), strict=True))
    return frozenset(name for name, claim in latest.items() if claim is not None)


def claimed_before(lake: Lake, ids: Iterable[bytes], without: frozenset[str]) -> frozenset[bytes]:
    """Return which of these event ids a signed segment has that a batch read, other than the ones `without`."""
    is_one = (pc.field("status") == READ) & pc.field("claim").is_valid()
    rows = open_segments(lake).read(["name", "claim"], is_one).to_pylist()
    claims = [claim for row in rows if row["name"] not in without and (claim := claim_of(row)) is not None]
    ranges: dict[bytes, list[tuple[int, int]]] = {}
    for claim in sorted(claims, key=lambda one: one.first):
        known = ranges.setdefault(bytes.fromhex(claim.writer)[:_WRITERS_BYTES], [])
        highest = max(claim.last, known[-1][1] if known else 0)  # so that the last range that begins before says it
        known.append((claim.first, highest))
    return frozenset(one for one in ids if _is_in(ranges.get(one[:_WRITERS_BYTES], []), event_number(EventId(one))))


def _is_in(ranges: list[tuple[int, int]], number: int) -> bool:
    """Each range also reaches as far as those that begin before it."""
    place = bisect_right(ranges, number, key=lambda one: one[0]) - 1
    return place >= 0 and number <= ranges[place][1]
