"""How reading our inboxes went: which were reached where, and why one can be read nowhere. It knows no connection.

A failure is one only when nothing that is still tried can cure it: a node may fail for one inbox while another answers,
and a relay while the mesh does.
"""

from restante.client.places.reading import Reading
from restante.model.places import MeshPlace, Place
from restante.ports.relay_connection import AttemptFailed


class SomeInboxesUnread(AttemptFailed):
    """One of our inboxes can be read nowhere, and another one is read."""

    def __init__(self, why: AttemptFailed) -> None:
        super().__init__(str(why), failure=why.failure, reached=why.reached, retry_after_ms=why.retry_after_ms)


class StillReading(SomeInboxesUnread):
    """One of our inboxes can be read nowhere, and the first try to read another one has not ended."""


class ReadResults:
    """Receivers note each try here. An inbox counts as read when it was reached at one of the places."""

    def __init__(self, reading: Reading) -> None:
        self._places: list[Place] = [*reading.relays, *([MeshPlace()] if reading.is_in_mesh else [])]
        self._all = [each.name for each in reading.inboxes]
        self._current = [each.name for each in reading.inboxes if not each.is_former]
        self._reached: set[tuple[Place, str]] = set()
        self._last: dict[tuple[Place, str], AttemptFailed | None] = {}

    def reached(self, place: Place, inbox: str) -> None:
        self._reached.add((place, inbox))
        self._last[place, inbox] = None

    def failed(self, place: Place, inbox: str, why: AttemptFailed) -> None:
        self._last[place, inbox] = why

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

    def _failure_of(self, inbox: str) -> AttemptFailed | None:
        tries = [self._last.get((place, inbox)) for place in self._places]
        return None if None in tries else next(iter(tries), None)
