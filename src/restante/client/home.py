"""The files of a client's directory: identity, relay, contacts and database."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.client.contacts import ContactBook
from restante.crypto.identity import Identity
from restante.crypto.passphrase import ScryptCost
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.places import RelayPlace
from restante.ports.entropy import Entropy
from restante.runtime.endpoints import parse_relay_place
from restante.runtime.identity_files import create_identity, load_identity, needs_passphrase
from restante.runtime.private_file import create_private_directory, write_private

MAX_RELAY_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class ClientDirectory:
    """A directory that holds one client. `create` makes a new identity in it."""

    path: Path

    @property
    def key(self) -> Path:
        return self.path / "identity"

    @property
    def relay_file(self) -> Path:
        return self.path / "relay"

    @property
    def contacts(self) -> Path:
        return self.path / "contacts"

    @property
    def database(self) -> Path:
        return self.path / "client.db"

    @property
    def run_lock(self) -> Path:
        """The lock that `restante run` holds while it keeps the client connected."""
        return self.path / "run.lock"

    def create(
        self,
        relay: RelayPlace,
        entropy: Entropy,
        *,
        passphrase: str | None = None,
        cost: ScryptCost | None = None,
    ) -> Identity:
        """Create an identity in a new directory. An existing one must be empty, so that nothing is overwritten."""
        create_private_directory(self.path)
        identity = create_identity(self.key, entropy, passphrase=passphrase, cost=cost)
        write_private(self.relay_file, [f"{relay}\n".encode()])
        return identity

    def check(self) -> None:
        """Raise unless this is a client's directory. Called before any file is created in it."""
        if not (self.key.is_file() and self.relay_file.is_file()):
            raise RestanteError(
                f"{self.path} is not a client's directory: it needs the files {self.key.name} and "
                f"{self.relay_file.name}, which 'restante id new' makes",
                code=Code.NOT_FOUND,
            )

    def is_under_passphrase(self) -> bool:
        self.check()
        return needs_passphrase(self.key)

    def identity(self, *, passphrase: str | None = None) -> Identity:
        self.check()
        return load_identity(self.key, passphrase=passphrase)

    def relay(self) -> RelayPlace:
        """Return the relay that stores this client's own mail."""
        self.check()
        with self.relay_file.open("rb") as file:
            raw = file.read(MAX_RELAY_BYTES)
        return parse_relay_place(raw.decode("utf-8", errors="replace").strip())

    def contact_book(self) -> ContactBook:
        return ContactBook(self.contacts)
