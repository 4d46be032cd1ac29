"""Keys and places that contacts renew: what each was told of ours, and the newest prekeys of each (SPEC 8.8)."""

from typing import Final, NamedTuple

from restante.model.ids import Address
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("session_store")


class Told(NamedTuple):
    """What a peer knows of us: our newest signed prekey, and a hash of our places (None: not recorded)."""

    prekey_id: int
    places: bytes | None


class PeerPrekeys:
    """Methods that write are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def told(self, peer: Address) -> Told | None:
        """Return what the peer was told last; None if nothing was recorded yet."""
        for prekey_id, places in self._database.rows(_SQL["told_keys"], peer):
            return Told(int(prekey_id), None if places is None else bytes(places))
        return None

    def set_told(self, peer: Address, told: Told) -> None:
        self._database.rows(_SQL["set_told_keys"], peer, *told)

    def bundle(self, peer: Address) -> bytes | None:
        """Return the newest bundle that the peer told us in a session or published in the mesh."""
        for (bundle,) in self._database.rows(_SQL["bundle_of"], peer):
            return bytes(bundle)
        return None

    def store(self, peer: Address, bundle: bytes) -> None:
        self._database.rows(_SQL["set_bundle"], peer, bundle)
