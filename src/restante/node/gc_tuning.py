"""Garbage-collector thresholds of the node process.

Each put makes a few tuples that live until their commit. At its default threshold of 700 new objects the collector
walks them many times, which takes a tenth of a put's time. None of them is part of a cycle.
"""

import gc
from typing import Final

NEW_OBJECTS: Final = 50_000  # some thousands of puts between two collections


def tune_garbage_collector() -> None:
    """Call once, after start-up: objects that exist by then are never scanned again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
