"""Our own access secrets in SQLite: the one in use, and those that were retired and are still read (SPEC 8.8)."""

from typing import Final, NamedTuple

from restante.core.inboxes.former_inboxes import MOST_FORMER_INBOXES, is_read
from restante.crypto.identity import Identity
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.wire.control_messages import ACCESS_SECRET_BYTES

_SQL: Final = load_queries("own_access")
_CONTEXT: Final = b"own access secret"


class OwnSecret(NamedTuple):
    """One of our access secrets. The first follows from the identity, so that it survives the loss of this file."""

    number: int
    secret: bytes
    since_ms: int = 0
    retired_at_ms: int | None = None

    @property
    def name(self) -> str:
        """What the buckets and connections of its inbox are kept under."""
        return f"contacts inbox {self.number}"


class OwnAccess:
    """Methods are called inside a transaction, except the properties, which are as of the last `refresh`."""

    def __init__(self, database: Database, identity: Identity, *, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._seal = seal
        self._entropy = entropy
        self._first = OwnSecret(0, identity.access_secret)
        self._secrets: list[OwnSecret] = [self._first]
        self._is_stale = True
        database.on_invalidate(self._invalidate)

    @property
    def current(self) -> OwnSecret:
        return self._secrets[-1]

    @property
    def former(self) -> tuple[OwnSecret, ...]:
        """Those that are still read, the oldest first."""
        return tuple(self._secrets[:-1])

    @property
    def shown_names(self) -> dict[str, str]:
        """What people see of the name of each inbox: "contacts inbox", and "former contacts inbox 1" for the first."""
        former = {each.name: f"former contacts inbox {each.number + 1}" for each in self.former}
        return {**former, self.current.name: "contacts inbox"}

    def refresh(self) -> None:
        """Read the secrets again, if the file may have changed."""
        if self._is_stale:
            rows = self._database.rows(_SQL["all"])
            self._secrets = [
                OwnSecret(number, self._seal.unseal(sealed, context=_CONTEXT), since_ms, retired_at_ms)
                for number, sealed, since_ms, retired_at_ms in rows
            ] or [self._first]
            self._is_stale = False

    def rotate(self, *, now_ms: int) -> None:
        """Use a new secret from now on, which only those will have who are told."""
        self.refresh()
        if self._secrets == [self._first]:
            self._add(self._first)  # it was not written down before
        self._database.rows(_SQL["retire"], now_ms)
        fresh = OwnSecret(self.current.number + 1, self._entropy.draw(ACCESS_SECRET_BYTES), now_ms)
        self._add(fresh)
        self._secrets[-1] = self.current._replace(retired_at_ms=now_ms)
        self._secrets.append(fresh)
        for each in self.former[:-MOST_FORMER_INBOXES]:
            self._forget(each)

    def forget_read(self, *, all_read_at_ms: int, now_ms: int) -> None:
        """Forget the secrets whose inboxes are no longer read."""
        self.refresh()
        for each in self.former:
            if not is_read(each.retired_at_ms or 0, all_read_at_ms=all_read_at_ms, now_ms=now_ms):
                self._forget(each)

    def _add(self, secret: OwnSecret) -> None:
        sealed = self._seal.seal(secret.secret, nonce=self._entropy.draw(NONCE_BYTES), context=_CONTEXT)
        self._database.rows(_SQL["add"], secret.number, sealed, secret.since_ms)

    def _forget(self, secret: OwnSecret) -> None:
        self._database.rows(_SQL["forget"], secret.number)
        self._database.rows(_SQL["forget_buckets"], secret.name)
        self._secrets.remove(secret)

    def _invalidate(self) -> None:
        self._is_stale = True
