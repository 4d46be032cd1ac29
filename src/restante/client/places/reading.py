"""Which of our inboxes are read, and where: the two that we use, at our places, and what we left (SPEC 6.5, 8.8)."""

from typing import Final, NamedTuple

from restante.client.places.own_places import OwnPlaces
from restante.core.inboxes.former_inboxes import is_read
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


def to_read(identity: Identity, access: OwnAccess, places: OwnPlaces, *, all_read_at_ms: int, now_ms: int) -> Reading:
    """Return what is read at this time. `all_read_at_ms` is when all of it was read last."""
    current = access.current
    inboxes = [
        InboxToRead(OwnInbox(identity), PUBLIC_INBOX),
        InboxToRead(OwnInbox(identity, current.secret), current.name, _since(current.since_ms)),
    ]
    inboxes += [
        InboxToRead(OwnInbox(identity, each.secret), each.name, _since(each.since_ms), is_former=True)
        for each in access.former
    ]
    found: dict[Place, None] = dict.fromkeys(places.current)
    for former in places.former:
        if is_read(former.retired_at_ms, all_read_at_ms=all_read_at_ms, now_ms=now_ms):
            found[former.place] = None
    relays = tuple(place for place in found if isinstance(place, RelayPlace))
    return Reading(tuple(inboxes), relays, MeshPlace() in found)


def _since(since_ms: int) -> int | None:
    return bucket_at(since_ms) if since_ms else None
