"""Which files of a table are written again when some of their rows change."""

import pytest

from restante.fleet.lake.delta import DataFile
from restante.fleet.lake.search import FAN, ROWS_PER_FILE, merge_plan

pytestmark = pytest.mark.unit


def files(count: int, *, day: str, rows: int) -> dict[str, DataFile]:
    names = [f"{day}-{rows}-{number}" for number in range(count)]
    return {name: DataFile(path=name, size_bytes=rows, rows=rows, day=day) for name in names}


def test_a_file_that_is_touched_is_written_again_alone_and_others_stay() -> None:
    live = files(2, day="2026-01-01", rows=10)
    [touched, _] = live
    assert merge_plan(live, [touched]) == [[touched]]
    assert merge_plan(live, []) == []


def test_many_files_of_one_day_and_about_one_size_become_one() -> None:
    small, other_day = files(FAN, day="2026-01-01", rows=10), files(FAN - 1, day="2026-01-02", rows=10)
    larger = files(1, day="2026-01-01", rows=10_000)
    assert merge_plan({**small, **other_day, **larger}, [next(iter(small))]) == [list(small)]


def test_files_that_would_become_too_large_stay_apart() -> None:
    live = files(FAN, day="2026-01-01", rows=ROWS_PER_FILE // FAN + 1)
    assert merge_plan(live, []) == []
