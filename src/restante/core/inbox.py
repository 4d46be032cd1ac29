"""What an arrival is, and when the application may see it (SPEC 9.1, 9.4).

One `SessionOrder` per sender and session. It does not decrypt, store or acknowledge: it says what to do. The gap
time-out of SPEC 9.5 and the session reset of 8.7 come with the ratchet; a gap beyond the limit is refused here.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from restante.model.codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import PayloadHash
from restante.model.states import Verdict

MAX_GAP: Final = 1_000  # SPEC 9.4: further ahead than this, the session is taken for corrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrder:
    """How far a session was handed on, and which later numbers already wait."""

    expected: int = 0
    waiting: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where one arrival leaves its session: `released` are the numbers the application now gets, in this order."""

    order: SessionOrder
    released: tuple[int, ...]


def verdict_before_opening(*, known: PayloadHash | None, arrived: PayloadHash) -> Verdict | None:
    """The verdict that needs no key; None when the message has to be opened to tell (SPEC 9.1)."""
    if known is None:
        return None
    return Verdict.DUPLICATE if known == arrived else Verdict.COLLISION


def verdict_after_opening(order: SessionOrder, sequence: int) -> Verdict:
    """REPLAY for a number that was consumed before under another message_id, else NEW."""
    return Verdict.REPLAY if sequence < order.expected or sequence in order.waiting else Verdict.NEW


def place(order: SessionOrder, sequence: int) -> Placement:
    """Hand on the new arrival and everything it was holding up, or keep it until the earlier ones are here."""
    if sequence - order.expected > MAX_GAP:
        raise RemoteProtocolError(
            f"sequence {sequence} is more than {MAX_GAP} ahead of {order.expected}", code=Code.SESSION_INVALID
        )
    waiting = order.waiting | {sequence}
    last = order.expected
    while last in waiting:
        last += 1
    released = tuple(range(order.expected, last))
    return Placement(
        order=replace(order, expected=last, waiting=waiting.difference(released)),
        released=released,
    )
