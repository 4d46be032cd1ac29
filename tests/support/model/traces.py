"""The counterexamples of docs/protocol/sessions.md, each as a list of acts on a world of two clients, A and B.

The same acts run on symbolic clients alone, with a rule switched off, and with real clients that follow.
"""

from collections.abc import Callable
from typing import NamedTuple

from restante.model.ids import SessionId
from support.model.explorer import UNKNOWN, UNKNOWN_GENERATION
from support.model.lockstep_world import LockstepWorld
from support.model.symbolic_values import Client
from support.model.symbolic_world import World

A, B = 0, 1
S0 = SessionId(b"\x00\x00")


class Script:
    """Acts on a world, by the words of the traces."""

    def __init__(self, world: World, back_up: Callable[[int], Client]) -> None:
        self.world = world
        self._back_up = back_up
        self._backups: dict[int, Client] = {}

    def sends(self, side: int) -> int:
        """Return the envelope."""
        self.world.send_mail(side)
        return self.world.written[-1]

    def gets(self, side: int, number: int) -> list[int]:
        """Return the envelopes that this made the side send, its receipts included."""
        begun = len(self.world.written)
        self.world.deliver(side, number)
        self.world.send_receipts(side)
        return self.world.written[begun:]

    def gets_all(self, side: int, numbers: list[int]) -> list[int]:
        return [answer for number in numbers for answer in self.gets(side, number)]

    def gets_forged(self, side: int, session: SessionId, generation: int) -> list[int]:
        begun = len(self.world.written)
        self.world.forge(side, session, generation)
        return self.world.written[begun:]

    def is_refused(self, side: int) -> None:
        """A relay refuses what the side puts, with every code. Symbolic clients do not hear of it."""
        if isinstance(self.world, LockstepWorld):
            self.world.refuse(side)

    def backs_up(self, side: int) -> None:
        self._backups[side] = self._back_up(side)

    def is_restored(self, side: int, *, is_known: bool) -> list[int]:
        begun = len(self.world.written)
        self.world.restore(side, self._backups[side], is_known=is_known)
        return self.world.written[begun:]

    def waits(self, side: int) -> list[int]:
        begun = len(self.world.written)
        self.world.elapse(side)
        return self.world.written[begun:]

    def a_third_party_uses_a_prekey_of(self, side: int) -> None:
        self.world.steal_one_time_prekey(side)

    def current(self, side: int) -> SessionId | None:
        session = self.world.current(side)
        return None if session is None else session.session_id


class Trace(NamedTuple):
    act: Callable[[Script], None]
    is_established: bool = True
    needs: str = ""
    """The rule without which the same acts break a property, if the other rules do not prevent it."""


def _forged_unknown(do: Script) -> None:
    do.gets_all(A, do.gets_all(B, do.gets_forged(A, UNKNOWN, UNKNOWN_GENERATION)))
    assert do.current(A) == do.current(B) == S0, "an outsider moved a session"


def _forged_current(do: Script) -> None:
    do.gets_all(A, do.gets_all(B, do.gets_forged(A, S0, 1)))
    assert do.current(A) == do.current(B) == S0, "an outsider moved a session"


def _first_opening_dropped(do: Script) -> None:
    do.is_refused(A)
    do.is_refused(A)
    do.sends(A)
    do.waits(A)
    do.is_refused(A)
    do.sends(A)


def _both_open_with_a_stolen_prekey(do: Script) -> None:
    do.a_third_party_uses_a_prekey_of(A)
    first, second = do.sends(A), do.sends(B)
    do.gets_all(B, [first])
    do.gets_all(A, [second])


def _unnoticed_then_read(do: Script) -> None:
    do.backs_up(A)
    first = do.sends(A)
    do.is_restored(A, is_known=False)
    do.gets(B, first)


def _known_restore(do: Script) -> None:
    do.backs_up(A)
    do.sends(A)
    do.is_restored(A, is_known=True)


def _other_side_restored(do: Script) -> None:
    do.backs_up(B)
    do.gets(A, do.sends(B))
    do.is_restored(B, is_known=False)


def _sends_again_after_restore(do: Script) -> None:
    do.backs_up(A)
    do.sends(A)
    do.is_restored(A, is_known=False)
    do.sends(A)


def _generation_four(do: Script) -> None:
    do.backs_up(B)
    do.gets(B, do.sends(A))
    do.backs_up(A)
    for _ in range(3):
        opening = do.is_restored(A, is_known=True)
        do.gets_all(A, do.gets_all(B, opening))
        do.waits(A)
        do.backs_up(A)
    assert do.world.clients[A].peer.highest_generation == 4
    do.is_restored(B, is_known=False)


def _crossing_after_known_restore(do: Script) -> None:
    do.sends(A)
    do.backs_up(A)
    do.is_restored(A, is_known=True)
    do.gets(A, do.sends(B))


def _spent_prekey_in_a_crossing(do: Script) -> None:
    do.backs_up(A)
    first = do.sends(A)
    do.gets(B, first)
    do.is_restored(A, is_known=False)
    second = do.sends(A)
    do.gets(B, second)


def _spent_prekey_after_two_restores(do: Script) -> None:
    do.backs_up(A)
    do.gets(B, do.sends(A))
    do.is_restored(A, is_known=False)
    do.gets(B, do.sends(A))
    do.is_restored(A, is_known=False)
    do.gets(B, do.sends(A))


def _both_prekeys_spent(do: Script) -> None:
    do.backs_up(A)
    do.a_third_party_uses_a_prekey_of(A)
    do.gets(B, do.sends(A))
    do.is_restored(A, is_known=False)
    answers = do.gets(B, do.sends(A))
    do.gets_all(A, answers)


def _both_open_and_write_in_step(do: Script) -> None:
    for _ in range(3):
        first, second = do.sends(A), do.sends(B)
        do.gets(B, first)
        do.gets(A, second)


TRACES = {
    "a forged blob claims an unknown session": Trace(_forged_unknown, needs="sender_tag"),
    "a relay refuses twice and drops the first opening": Trace(_first_opening_dropped, is_established=False),
    "a third party uses a prekey and both open": Trace(_both_open_with_a_stolen_prekey, is_established=False),
    "restored unnoticed after the peer read": Trace(_unnoticed_then_read, needs="open_when_unreadable"),
    "a forged blob claims the current session": Trace(_forged_current, needs="sender_tag"),
    "restored and knows it": Trace(_known_restore, needs="newest_read"),
    "the peer is restored unnoticed after it was read": Trace(_other_side_restored, needs="open_when_unreadable"),
    "sends again after an unnoticed restore": Trace(_sends_again_after_restore, needs="random_key_bytes"),
    "lost everything while the peer is at generation 4": Trace(_generation_four, is_established=False),
    "known restore in a crossing": Trace(_crossing_after_known_restore, is_established=False, needs="delete_on_loss"),
    "unnoticed restore opens with a spent prekey": Trace(_spent_prekey_in_a_crossing, is_established=False),
    "two restores open with a spent prekey": Trace(_spent_prekey_after_two_restores, is_established=False),
    "both prekeys are spent": Trace(_both_prekeys_spent, is_established=False),
    "both open at once and write in step": Trace(_both_open_and_write_in_step, is_established=False),
}
