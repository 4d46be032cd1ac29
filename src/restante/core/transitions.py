"""Transition tables as data: which event is legal in which phase, and which phases it may lead to.

A machine checks its table at each step, and its tests try every pair. An event that is not listed raises and changes
nothing.
"""

from collections.abc import Mapping
from typing import TypeVar

from restante.model.errors import LocalProtocolError

Phase = TypeVar("Phase")
Table = Mapping[Phase, Mapping[type, frozenset[Phase]]]


def legal_phases(table: Table[Phase], phase: Phase, event: object) -> frozenset[Phase]:
    """Return the phases that the event may lead to. Raise `LocalProtocolError` if it is illegal in this phase."""
    following = table[phase].get(type(event))
    if following is None:
        raise LocalProtocolError(f"{type(event).__name__} while {phase}")
    return following


def check_phase(following: frozenset[Phase], phase: Phase, event: object) -> None:
    """Raise if a machine moved to a phase that its table does not list: a bug in the machine or in the table."""
    if phase not in following:
        raise LocalProtocolError(f"{type(event).__name__} led to {phase}, which the table does not list")
