"""Access secrets of contacts inboxes in SQLite: those that contacts gave us, and who has ours (SPEC 7.2, 8.8)."""

from typing import Final

from restante.crypto.blinded_keys import NO_SECRET
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.ids import Address
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("access_secrets")
_CONTEXT: Final = b"access secret of "


class AccessSecrets:
    """Methods are called inside a transaction, except `secret_of`."""

    def __init__(self, database: Database, *, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._seal = seal
        self._entropy = entropy
        self._known: dict[Address, bytes] = {}
        self._unused: set[Address] = set()
        self._is_stale = True
        database.on_invalidate(self._invalidate)

    def secret_of(self, peer: Address) -> bytes:
        """Return the secret of the peer's contacts inbox, as of the last `refresh`; empty while none is used."""
        return NO_SECRET if peer in self._unused else self._known.get(peer, NO_SECRET)

    def refresh(self) -> None:
        """Read the secrets again, if the file may have changed."""
        if self._is_stale:
            rows = self._database.rows(_SQL["all"])
            self._known = {
                Address(peer): self._seal.unseal(sealed, context=_CONTEXT + peer) for peer, sealed, _ in rows
            }
            self._unused = {Address(peer) for peer, _, is_used in rows if not is_used}
            self._is_stale = False

    def keep(self, peer: Address, secret: bytes) -> None:
        """Store the secret that a contact gave us, for `use`."""
        self.refresh()
        if self._known.get(peer) == secret:
            return
        sealed = self._seal.seal(secret, nonce=self._entropy.draw(NONCE_BYTES), context=_CONTEXT + peer)
        self._database.rows(_SQL["keep"], peer, sealed)
        self._known[peer] = secret
        self._unused.add(peer)

    def unused(self) -> list[Address]:
        """Return the peers whose secret is stored and not used yet."""
        self.refresh()
        return list(self._unused)

    def use(self, peer: Address) -> None:
        """From now on mail to the peer goes to its contacts inbox."""
        self._database.rows(_SQL["use"], peer)
        self._unused.discard(peer)

    def untold(self) -> list[Address]:
        """Return the peers of whom we have read a message and who lack our secret."""
        return [Address(peer) for (peer,) in self._database.rows(_SQL["untold"])]

    def mark_told(self, peer: Address) -> None:
        self._database.rows(_SQL["told"], peer)

    def _invalidate(self) -> None:
        self._is_stale = True
