"""Which of our inboxes are read, and where: those that we use, at our places, and those that we left (SPEC 8.8)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.policy.mesh.time_buckets import bucket_at
from restante.runtime.sqlite.own_access import OwnAccess

PUBLIC_INBOX: Final = "public inbox"


class InboxToRead(NamedTuple):
    """`name` is what its connections and buckets are kept under, `since` the first bucket in which it can have mail.

    A former inbox is read seldom in the mesh: few contacts still write to it, and each for a short time.
    """

    inbox: OwnInbox
    name: str
    since: int | None = None
    is_former: bool = False


class Reading(NamedTuple):
    inboxes: tuple[InboxToRead, ...]
    relays: tuple[RelayPlace, ...]
    is_in_mesh: bool


def to_read(identity: Identity, access: OwnAccess, places: Sequence[Place]) -> Reading:
    """Return what is read at this time."""
    current = access.current
    inboxes = [
        InboxToRead(OwnInbox(identity), PUBLIC_INBOX),
        InboxToRead(OwnInbox(identity, current.secret), current.name, _since(current.since_ms)),
    ]
    inboxes += [
        InboxToRead(OwnInbox(identity, each.secret), each.name, _since(each.since_ms), is_former=True)
        for each in access.former
    ]
    relays = tuple(place for place in places if isinstance(place, RelayPlace))
    return Reading(tuple(inboxes), relays, MeshPlace() in places)


def _since(since_ms: int) -> int | None:
    return bucket_at(since_ms) if since_ms else None
