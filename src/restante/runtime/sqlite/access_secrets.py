"""Access secrets of contacts inboxes in SQLite: those that contacts gave us, and who has ours (SPEC 7.2, 8.8)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from restante.core.inboxes.former_inboxes import is_to_be_told
from restante.crypto.blinded_keys import NO_SECRET
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.ids import Address
from restante.policy.completion import DAY_MS
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("access_secrets")
_CONTEXT: Final = b"access secret of "


class UseOfOurs(StrEnum):
    """Which of our inboxes a peer writes to since it was told our secret, as far as its mail shows."""

    UNKNOWN = "unknown"
    CONFIRMED = "confirmed"
    """The contacts inbox of that secret."""
    OUTDATED = "outdated"
    """It did, and then wrote to another one: one of us may have lost state."""


@dataclass(slots=True)
class _Peer:
    secret: bytes = NO_SECRET
    stated_at_ms: int = 0
    is_used: bool = False
    told_at_ms: int | None = None
    use: UseOfOurs = UseOfOurs.UNKNOWN


class AccessSecrets:
    """Methods are called inside a transaction, except `secret_of`."""

    def __init__(self, database: Database, *, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._seal = seal
        self._entropy = entropy
        self._peers: dict[Address, _Peer] = {}
        self._is_stale = True
        database.on_invalidate(self._invalidate)

    def secret_of(self, peer: Address) -> bytes:
        """Return the secret of the peer's contacts inbox, as of the last `refresh`; empty while none is used."""
        known = self._peers.get(peer)
        return known.secret if known is not None and known.is_used else NO_SECRET

    def refresh(self) -> None:
        """Read the secrets again, if the file may have changed."""
        if self._is_stale:
            self._peers = {
                Address(peer): _Peer(
                    NO_SECRET if sealed is None else self._seal.unseal(sealed, context=_CONTEXT + peer),
                    stated_at_ms,
                    bool(is_used),
                    told_at_ms,
                    UseOfOurs(use),
                )
                for peer, sealed, stated_at_ms, is_used, told_at_ms, use in self._database.rows(_SQL["all"])
            }
            self._is_stale = False

    def keep(self, peer: Address, secret: bytes, *, stated_at_ms: int, now_ms: int) -> None:
        """Store the secret that a contact gave us, for `use`. An older statement never replaces a newer one.

        One that is far ahead of our clock counts as of tomorrow, or it would stand against all later ones.
        """
        self.refresh()
        stated_at_ms = min(stated_at_ms, now_ms + DAY_MS)
        known = self._peers.setdefault(peer, _Peer())
        if stated_at_ms <= known.stated_at_ms:
            return
        known.stated_at_ms = stated_at_ms
        if known.secret == secret:
            self._database.rows(_SQL["state_again"], peer, stated_at_ms)
            return
        sealed = self._seal.seal(secret, nonce=self._entropy.draw(NONCE_BYTES), context=_CONTEXT + peer)
        self._database.rows(_SQL["keep"], peer, sealed, stated_at_ms)
        known.secret, known.is_used = secret, False

    def unused(self) -> list[Address]:
        """Return the peers whose secret is stored and not used yet."""
        self.refresh()
        return [peer for peer, each in self._peers.items() if each.secret and not each.is_used]

    def use(self, peer: Address) -> None:
        """From now on mail to the peer goes to its contacts inbox."""
        self._database.rows(_SQL["use"], peer)
        self._peers[peer].is_used = True

    def to_tell(self, *, now_ms: int) -> list[Address]:
        """Return the peers of whom we have read a message and who are to be told our secret now."""
        self.refresh()
        readable = [Address(peer) for (peer,) in self._database.rows(_SQL["readable_peers"])]
        return [peer for peer in readable if self._is_to_be_told(peer, now_ms)]

    def mark_told(self, peer: Address, *, now_ms: int) -> None:
        self._database.rows(_SQL["told"], peer, now_ms)
        known = self._peers.setdefault(peer, _Peer())
        known.told_at_ms, known.use = now_ms, UseOfOurs.UNKNOWN

    def note_arrival(self, peer: Address, *, is_in_contacts_inbox: bool) -> None:
        """Mail of this peer came: by the contacts inbox of our present secret, or by another inbox."""
        self.refresh()
        known = self._peers.get(peer)
        if known is None or known.told_at_ms is None:
            return
        use = known.use
        if is_in_contacts_inbox:
            use = UseOfOurs.CONFIRMED
        elif use is UseOfOurs.CONFIRMED:
            use = UseOfOurs.OUTDATED
        if use is not known.use:
            known.use = use
            self._database.rows(_SQL["set_use"], peer, use)

    def forget_others(self, may_be_contact: Callable[[Address], bool]) -> bool:
        """Forget all peers that are no contacts; return whether one of them has our present secret."""
        self.refresh()
        gone = {peer: each for peer, each in self._peers.items() if not may_be_contact(peer)}
        for peer in gone:
            self._database.rows(_SQL["forget"], peer)
            del self._peers[peer]
        return any(each.told_at_ms is not None for each in gone.values())

    def tell_all_again(self) -> None:
        """Our secret is a new one: no peer has it."""
        self._database.rows(_SQL["tell_all_again"])
        for each in self._peers.values():
            each.told_at_ms, each.use = None, UseOfOurs.UNKNOWN

    def _is_to_be_told(self, peer: Address, now_ms: int) -> bool:
        known = self._peers.get(peer, _Peer())
        return is_to_be_told(
            known.told_at_ms,
            is_confirmed=known.use is UseOfOurs.CONFIRMED,
            is_outdated=known.use is UseOfOurs.OUTDATED,
            now_ms=now_ms,
        )

    def _invalidate(self) -> None:
        self._is_stale = True
