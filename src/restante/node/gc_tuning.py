"""How often Python looks for circular garbage in a node's process.

Each put makes a few tuples that live until their commit. At its usual threshold of 700 new objects the collector walks
them again and again, which is a tenth of the time a put takes. None of them is ever part of a circle.
"""

import gc
from typing import Final

NEW_OBJECTS: Final = 50_000  # some thousands of puts; what circles there are wait that long and cost no more than this


def tune_garbage_collector() -> None:
    """To be called once, when everything that stays is there: that is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
