"""Batches say which events came and went; those of long ago do not any more."""

from dataclasses import replace
from pathlib import Path

import pytest

from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import (
    CHANGES_KEPT,
    MERGE_INTERVAL,
    Batches,
    EventChanges,
    changes_since,
)
from restante.fleet.stream.bucket_step import Counts
from support.spec.clauses import clause

pytestmark = pytest.mark.unit


def change(n: int) -> EventChanges:
    return EventChanges(came=(f"came-{n}",), went=(f"went-{n}",) if n % 2 else ())


def committed(lake: Lake, *, until: int) -> Batches:
    batches = Batches(lake, buckets=1)
    for n in range(batches.done + 1, until + 1):
        batches.commit(replace(batches.catalog, number=n), [], Counts(), 0, change(n))
    return batches


@clause("13.2")
def test_changes_since_a_batch_are_those_of_all_later_ones_in_order(tmp_path: Path) -> None:
    batches = committed(Lake(str(tmp_path)), until=MERGE_INTERVAL + 2)
    found = changes_since(batches.batches, MERGE_INTERVAL - 1)
    assert found == change(MERGE_INTERVAL) + change(MERGE_INTERVAL + 1) + change(MERGE_INTERVAL + 2)
    assert changes_since(batches.batches, MERGE_INTERVAL + 2) == EventChanges()


@clause("13.2")
def test_changes_of_long_ago_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.fleet.stream.batches.CHANGES_KEPT", 4)
    batches = committed(Lake(str(tmp_path)), until=MERGE_INTERVAL + 1)
    assert CHANGES_KEPT > MERGE_INTERVAL
    assert changes_since(batches.batches, MERGE_INTERVAL - 5) is None
    assert changes_since(batches.batches, MERGE_INTERVAL - 4) is not None
