"""Prekeys that contacts renew inside the session: what each was told of ours, and what it told us (SPEC 8.8)."""

from typing import Final

from restante.model.ids import Address
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("session_store")


class PeerPrekeys:
    """Methods that write are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def told(self, peer: Address) -> int | None:
        """Return the newest of our signed prekeys that the peer was told; None if none was recorded yet."""
        for (prekey_id,) in self._database.rows(_SQL["told_prekey"], peer):
            return int(prekey_id)
        return None

    def set_told(self, peer: Address, prekey_id: int) -> None:
        self._database.rows(_SQL["set_told_prekey"], peer, prekey_id)

    def bundle(self, peer: Address) -> bytes | None:
        """Return the newest bundle that the peer told us in a session."""
        for (bundle,) in self._database.rows(_SQL["bundle_of"], peer):
            return bytes(bundle)
        return None

    def store(self, peer: Address, bundle: bytes) -> None:
        self._database.rows(_SQL["set_bundle"], peer, bundle)
