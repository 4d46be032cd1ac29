"""How long a circuit may owe an answer before it is given up (SPEC 11.3).

A hop that loses a cell, a machine without power and a cut line send no DESTROY: nothing comes any more. A circuit is
silent if something was asked over it and no cell has come back since, whatever the cell.

An exit passes on the first answer to a STORE as soon as a node has one. A node behind an inner connection may take
longer, and so may dialling it. So before such a circuit is given up, its exit is probed: it is asked for a node that
does not exist, which it answers at once.
"""

from enum import StrEnum
from typing import Final

SILENT_S: Final = 3.0
CONNECT_FACTOR: Final = 3.0
LONGEST_CONNECT_S: Final = 10.0
"""As for any answer of a node (SPEC 6.8)."""


class Silence(StrEnum):
    """What to do about a circuit that owes an answer."""

    WAIT = "wait"
    PROBE = "probe"
    GIVE_UP = "give_up"


def silent_after_s(build_timeout_s: float) -> float:
    """Return how long nothing may come. Where builds take long, answers do, too."""
    return max(SILENT_S, build_timeout_s)


def judge_silence(owed_s: float, *, limit_s: float, is_storing: bool, is_probed: bool) -> Silence:
    """Return what to do about a circuit that has owed an answer for so long, and has been probed meanwhile or not."""
    if owed_s < limit_s:
        return Silence.WAIT
    if is_storing or (is_probed and owed_s >= 2 * limit_s):
        return Silence.GIVE_UP
    return Silence.WAIT if is_probed else Silence.PROBE


def inner_connect_limit_s(build_timeout_s: float) -> float:
    """Return how long an inner connection may take to stand: BEGIN, TLS and the node's greeting are three round trips,
    as a build is, over one hop more."""
    return min(LONGEST_CONNECT_S, max(SILENT_S, CONNECT_FACTOR * build_timeout_s))
