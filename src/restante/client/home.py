"""The files of a client's directory: identity, places, contacts and database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.client.contacts import ContactBook
from restante.client.mesh.host import CircuitMode, MeshAccess
from restante.crypto.identity import Identity
from restante.crypto.passphrase import ScryptCost
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, Malformed, RestanteError
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.entropy import Entropy
from restante.runtime.endpoints import parse_relay_place
from restante.runtime.identity_files import create_identity, load_identity, needs_passphrase
from restante.runtime.private_file import create_private_directory, write_private

MAX_RELAY_BYTES: Final = 1_024
MAX_MESH_BYTES: Final = 65_536


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
    def mesh_file(self) -> Path:
        """Nodes of the mesh to ask first, since when the identity exists, and whether circuits are used."""
        return self.path / "mesh"

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
        relay: RelayPlace | None,
        entropy: Entropy,
        *,
        mesh: Sequence[RelayPlace] = (),
        circuits: CircuitMode = CircuitMode.REQUIRED,
        now_ms: int = 0,
        passphrase: str | None = None,
        cost: ScryptCost | None = None,
    ) -> Identity:
        """Create an identity in a new directory. An existing one must be empty, so that nothing is overwritten.

        Its mail is stored at `relay`, in the mesh that the nodes `mesh` belong to, or at both.
        """
        if relay is None and not mesh:
            raise ConfigurationInvalid("an identity needs a place for its mail: a relay, or nodes of a mesh")
        create_private_directory(self.path)
        identity = create_identity(self.key, entropy, passphrase=passphrase, cost=cost)
        if relay is not None:
            write_private(self.relay_file, [f"{relay}\n".encode()])
        if mesh:
            self._write_mesh(mesh, since=bucket_at(now_ms), circuits=circuits)
        return identity

    def set_circuits(self, circuits: CircuitMode) -> None:
        """Change whether the mesh is reached through circuits; a running client reads it at its next start."""
        access = self.mesh_access()
        if access is None:
            raise ConfigurationInvalid(f"the client in {self.path} uses no mesh, so it has no circuits")
        self._write_mesh(access.bootstrap, since=access.since or 0, circuits=circuits)

    def check(self) -> None:
        """Raise unless this is a client's directory. Called before any file is created in it."""
        if not (self.key.is_file() and (self.relay_file.is_file() or self.mesh_file.is_file())):
            raise RestanteError(
                f"{self.path} is not a client's directory: it needs the file {self.key.name} and one of "
                f"{self.relay_file.name} and {self.mesh_file.name}, which 'restante id new' makes",
                code=Code.NOT_FOUND,
            )

    def is_under_passphrase(self) -> bool:
        self.check()
        return needs_passphrase(self.key)

    def identity(self, *, passphrase: str | None = None) -> Identity:
        self.check()
        return load_identity(self.key, passphrase=passphrase)

    def places(self) -> tuple[Place, ...]:
        """Return where this client's own mail is stored, in the order in which senders try the places."""
        mesh: tuple[Place, ...] = (MeshPlace(),) if self.mesh_file.is_file() else ()
        relay = self.relay()
        return mesh if relay is None else (*mesh, relay)

    def mesh_access(self) -> MeshAccess | None:
        """Return how this client reaches the mesh; None if it uses named relays only."""
        if not self.mesh_file.is_file():
            return None
        with self.mesh_file.open("rb") as file:
            raw = file.read(MAX_MESH_BYTES + 1)
        try:
            fields = json.loads(raw)
            nodes, since = [str(each) for each in fields["nodes"]], int(fields["since"])
            circuits = CircuitMode(fields["circuits"])
        except (ValueError, KeyError, TypeError):
            raise Malformed(
                f"{self.mesh_file} must have 'nodes', 'since' and 'circuits', as 'restante id new' writes them; "
                f"'circuits' is {' or '.join(CircuitMode)}"
            ) from None
        return MeshAccess(bootstrap=tuple(map(parse_relay_place, nodes)), since=since, circuits=circuits)

    def relay(self) -> RelayPlace | None:
        """Return the relay that stores this client's own mail; None if only the mesh does."""
        self.check()
        if not self.relay_file.is_file():
            return None
        with self.relay_file.open("rb") as file:
            raw = file.read(MAX_RELAY_BYTES)
        return parse_relay_place(raw.decode("utf-8", errors="replace").strip())

    def _write_mesh(self, nodes: Sequence[RelayPlace], *, since: int, circuits: CircuitMode) -> None:
        fields = {"since": since, "circuits": circuits.value, "nodes": [str(each) for each in nodes]}
        write_private(self.mesh_file, [f"{json.dumps(fields, indent=1)}\n".encode()])

    def contact_book(self) -> ContactBook:
        return ContactBook(self.contacts)
