"""How long a circuit may owe an answer before it is given up (SPEC 11.3).

A hop that loses a cell, a machine without power and a cut line send no DESTROY: nothing comes any more. A circuit is
silent if something was asked over it and no cell has come back since, whatever the cell.
"""

from typing import Final

STORE_S: Final = 3.0
"""An exit passes on a node's answer as soon as it has one, so the first of several soon comes."""
INNER_S: Final = 10.0
"""A node may take as long for any answer (SPEC 6.8), so its silence says nothing before."""


def silent_after_s(build_timeout_s: float, *, is_storing: bool) -> float:
    """Return the limit for a circuit with STOREs or inner connections. Where builds take long, answers do, too."""
    return max(STORE_S if is_storing else INNER_S, build_timeout_s)


def guard_silent_after_s(build_timeout_s: float) -> float:
    """Return how long a guard has for a PING after one of its circuits was silent or was not begun in time."""
    return max(STORE_S, build_timeout_s)
