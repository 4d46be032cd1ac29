"""node/gc_tuning: what stays is not walked again, and new objects are collected rarely."""

import gc
from collections.abc import Iterator

import pytest

from restante.node.gc_tuning import tune_garbage_collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_is_there_is_frozen_and_new_objects_are_collected_rarely() -> None:
    tune_garbage_collector()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == 50_000
    assert gc.isenabled()
