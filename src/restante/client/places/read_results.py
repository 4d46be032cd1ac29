"""How reading our inboxes went: which were reached where, and why one can be read nowhere. It knows no connection.

A failure is one only when nothing that is still tried can cure it: a node may fail for one inbox while another answers,
and a relay while the mesh does.
"""

from collections.abc import Callable

from restante.client.places.reading import Reading
from restante.client.places.reading_status import ReadingStatus, UnreadPlace
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.ports.relay_connection import AttemptFailed


class SomeInboxesUnread(AttemptFailed):
    """One of our inboxes can be read nowhere, and another one is read."""

    def __init__(self, why: AttemptFailed) -> None:
        super().__init__(str(why), failure=why.failure, reached=why.reached, retry_after_ms=why.retry_after_ms)


class StillReading(SomeInboxesUnread):
    """One of our inboxes can be read nowhere, and the first try to read another one has not ended."""


class ReadResults:
    """Receivers note each try here. An inbox counts as read when it was reached at one of the places."""

    def __init__(self, reading: Reading, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._places: list[Place] = [*reading.relays, *([MeshPlace()] if reading.is_in_mesh else [])]
        self._all = [each.name for each in reading.inboxes]
        self._current = [each.name for each in reading.inboxes if not each.is_former]
        self._reached: set[tuple[Place, str]] = set()
        self._last: dict[tuple[Place, str], AttemptFailed | None] = {}
        self._failing: dict[tuple[Place, str], tuple[int, AttemptFailed]] = {}
        """Since when each try failed, and why the last one did."""

    def reached(self, place: Place, inbox: str) -> None:
        self._reached.add((place, inbox))
        self._last[place, inbox] = None
        self._failing.pop((place, inbox), None)

    def lost(self, place: Place, inbox: str) -> None:
        """The connection that was reached is gone, and the next try has not ended."""
        if self._last.get((place, inbox)) is None:
            self._last.pop((place, inbox), None)

    def failed(self, place: Place, inbox: str, why: AttemptFailed) -> None:
        self._last[place, inbox] = why
        since_ms, _ = self._failing.get((place, inbox), (self._now_ms(), why))
        self._failing[place, inbox] = since_ms, why

    @property
    def was_connected(self) -> bool:
        """Whether each inbox that we use was reached at least once."""
        return set(self._current) <= {name for _, name in self._reached}

    @property
    def has_read_all(self) -> bool:
        """Whether each inbox was reached at each place, former ones too."""
        return len(self._reached) == len(self._places) * len(self._all)

    @property
    def failure(self) -> AttemptFailed | None:
        """Why the last try to read an inbox that we use failed at every place; None while each is read or tried."""
        found = [self._failure_of(name) for name in self._current]
        failed = next((each for each in found if each is not None), None)
        if failed is None or None not in found:
            return failed
        is_each_tried = all((place, name) in self._last for place in self._places for name in self._current)
        return SomeInboxesUnread(failed) if is_each_tried else StillReading(failed)

    def status(self) -> ReadingStatus:
        """Return how reading goes now; a place that was reached once counts no longer if it was lost since."""
        read = [name for name in self._current if any(self._is_reached(place, name) for place in self._places)]
        unread = [name for name in self._current if name not in read and self._failure_of(name) is not None]
        is_final = bool(unread) and not isinstance(self.failure, StillReading)
        return ReadingStatus(
            is_read=bool(self._places) and len(read) == len(self._current),
            is_part_read=bool(read),
            failing=tuple(self._unread_place(place, unread) for place in self._places) if is_final else (),
        )

    def _is_reached(self, place: Place, inbox: str) -> bool:
        return (place, inbox) in self._last and self._last[place, inbox] is None

    def _unread_place(self, place: Place, unread: list[str]) -> UnreadPlace:
        """Return since when one of these inboxes can't be read at this place, and why."""
        since_ms, why = min((self._failing[place, name] for name in unread), key=lambda each: each[0])
        text = f"{place.host}:{place.port}" if isinstance(place, RelayPlace) else str(place)
        return UnreadPlace(place=text, since_ms=since_ms, code=why.code.value, text=str(why))

    def _failure_of(self, inbox: str) -> AttemptFailed | None:
        tries = [self._last.get((place, inbox)) for place in self._places]
        return None if None in tries else next(iter(tries), None)
