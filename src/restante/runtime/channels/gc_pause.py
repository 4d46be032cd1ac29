"""The garbage collector, held back while many small values that form no cycles are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Looking through a million tokens again and again nearly doubles the time. Safe to nest and to use in threads:
    whoever found it running sets it running again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
