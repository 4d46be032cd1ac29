"""Where our own mail is stored now, and where it was: old places are read for 30 more days (SPEC 3.14, 8.8)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from restante.model.places import Place


class FormerPlace(NamedTuple):
    """A place that we left. Contacts that do not know that yet still store mail there."""

    place: Place
    retired_at_ms: int


class OwnPlaces:
    """The places of one identity, in the order in which senders try them."""

    def __init__(self, current: Sequence[Place], former: Iterable[FormerPlace] = ()) -> None:
        self.current = tuple(current)
        self.former = tuple(former)

    def refresh(self) -> None:
        """Read them again, if they may have changed. These never do; `client.home.PlacesFile` is a file."""


def moved(own: OwnPlaces, places: Sequence[Place], *, now_ms: int) -> OwnPlaces:
    """Return the places after a move: those that are left count as former from now on."""
    left = [FormerPlace(place, now_ms) for place in own.current if place not in places]
    before = [each for each in own.former if each.place not in places]
    return OwnPlaces(places, [*before, *left])
