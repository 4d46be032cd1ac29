"""How two peers agree on the session that follows a broken one, and what is then sent again (SPEC 8.7, decisions/0016).

A reset is the first message of the new session and names the old one. Both sides apply the same rule to the same two
facts, so they end in the same session even when both began one at once. It knows neither keys nor storage.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from restante.model.ids import MessageId, SessionId
from restante.model.states import IN_FLIGHT, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where we are with a peer: the session we send in, and the one it took the place of, if we began it ourselves."""

    current: SessionId
    replaced: SessionId | None = None


class Move(StrEnum):
    ADOPT = "adopt"
    """Send in the peer's new session from now on; what has no receipt is sealed again there."""
    KEEP = "keep"
    """Both began one and ours is the one that counts: the peer adopts it by this same rule."""
    IGNORE = "ignore"
    """Old news: it names a session we have left."""


def on_reset(standing: Standing, *, old: SessionId, new: SessionId) -> Move:
    """What a reset from the peer, brought by the session `new`, means to us."""
    if new == standing.current:
        return Move.IGNORE
    if old == standing.current:
        return Move.ADOPT
    if old != standing.replaced:
        return Move.IGNORE
    return Move.ADOPT if new < standing.current else Move.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """One of our messages to the peer, with the session and number it was last sealed for."""

    message_id: MessageId
    session_id: SessionId
    sequence: int
    state: State


Entry = TypeVar("Entry", bound=Numbered)


def to_reseal(entries: Iterable[Entry], *, session: SessionId) -> list[Entry]:
    """What is sealed again for `session`, in this order: all without a receipt from any session before it.

    The id stays; session and number are new. Older sessions first by their lowest place in the outbox's own order.
    """
    waiting = [entry for entry in entries if entry.state in IN_FLIGHT and entry.session_id != session]
    rank = {old: place for place, old in enumerate(dict.fromkeys(entry.session_id for entry in waiting))}
    return sorted(waiting, key=lambda entry: (rank[entry.session_id], entry.sequence))
