"""The files of a client's directory: identity, places, access to the mesh, contacts and database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.client.contacts import ContactBook
from restante.client.mesh.host import CircuitMode, MeshAccess
from restante.client.places.own_places import FormerPlace, OwnPlaces, moved
from restante.core.inboxes.former_inboxes import READ_MS
from restante.crypto.identity import Identity
from restante.crypto.passphrase import ScryptCost
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, Malformed, RestanteError, StoreUnusable
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.entropy import Entropy
from restante.runtime.endpoints import parse_relay_place
from restante.runtime.identity_files import create_identity, load_identity, needs_passphrase
from restante.runtime.private_file import create_private_directory, write_private
from restante.wire.places import MAX_PLACES

MAX_FILE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class ClientDirectory:
    """A directory that holds one client. `create` makes a new identity in it."""

    path: Path

    @property
    def key(self) -> Path:
        return self.path / "identity"

    @property
    def places_file(self) -> Path:
        """Where the mail of this identity is stored, in the order to try, and where it was before."""
        return self.path / "places"

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
        if mesh:
            self._write_mesh(mesh, since=bucket_at(now_ms), circuits=circuits)
        places: list[Place] = [MeshPlace()] if mesh else []
        write_places(self.places_file, OwnPlaces([*places, *([] if relay is None else [relay])]))
        return identity

    def move(self, places: Sequence[Place], *, mesh: Sequence[RelayPlace] = (), now_ms: int) -> OwnPlaces:
        """Store the mail of this identity at other places from now on; a running client notices.

        `mesh` are nodes to ask first, for a client that used no mesh yet, or in place of those it knows.
        """
        check_places(places)
        access = self.mesh_access()
        if MeshPlace() in places and access is None and not mesh:
            raise ConfigurationInvalid("this client knows no mesh: name nodes to ask first with --mesh KEY@HOST:PORT")
        if mesh:
            since = bucket_at(now_ms) if access is None else access.since or 0
            mode = CircuitMode.REQUIRED if access is None else access.circuits
            self._write_mesh(mesh, since=since, circuits=mode)
        after = moved(self.own_places(), places, now_ms=now_ms)
        write_places(self.places_file, after)
        return after

    def set_circuits(self, circuits: CircuitMode) -> None:
        """Change whether the mesh is reached through circuits; a running client reads it at its next start."""
        access = self.mesh_access()
        if access is None:
            raise ConfigurationInvalid(f"the client in {self.path} uses no mesh, so it has no circuits")
        self._write_mesh(access.bootstrap, since=access.since or 0, circuits=circuits)

    def check(self) -> None:
        """Raise unless this is a client's directory. Called before any file is created in it."""
        if not (self.key.is_file() and self.places_file.is_file()):
            raise RestanteError(
                f"{self.path} is not a client's directory: it needs the files {self.key.name} and "
                f"{self.places_file.name}, which 'restante id new' makes",
                code=Code.NOT_FOUND,
            )

    def is_under_passphrase(self) -> bool:
        self.check()
        return needs_passphrase(self.key)

    def identity(self, *, passphrase: str | None = None) -> Identity:
        self.check()
        return load_identity(self.key, passphrase=passphrase)

    def own_places(self) -> "PlacesFile":
        """Return where this client's own mail is stored; it is read again when the file changed."""
        self.check()
        return PlacesFile(self.places_file)

    def places(self) -> tuple[Place, ...]:
        """Return where this client's own mail is stored, in the order in which senders try the places."""
        return self.own_places().current

    def mesh_access(self) -> MeshAccess | None:
        """Return how this client reaches the mesh; None if it uses named relays only."""
        if not self.mesh_file.is_file():
            return None
        raw = _read(self.mesh_file)
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

    def _write_mesh(self, nodes: Sequence[RelayPlace], *, since: int, circuits: CircuitMode) -> None:
        fields = {"since": since, "circuits": circuits.value, "nodes": [str(each) for each in nodes]}
        write_private(self.mesh_file, [f"{json.dumps(fields, indent=1)}\n".encode()])

    def contact_book(self) -> ContactBook:
        return ContactBook(self.contacts)


class PlacesFile(OwnPlaces):
    """The places in a client's file. `refresh` reads it again when it changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        super().__init__(())
        self.refresh()

    def refresh(self) -> None:
        try:
            found = self._path.stat()
            if (found.st_mtime_ns, found.st_ino) == self._stamp:
                return
            raw = _read(self._path)
        except OSError as error:
            raise StoreUnusable(f"{self._path} cannot be read: {error.strerror}") from error
        own = _decode_places(raw, self._path)
        self.current, self.former = own.current, own.former
        self._stamp = found.st_mtime_ns, found.st_ino


def write_places(path: Path, own: OwnPlaces) -> None:
    former = [{"place": str(each.place), "until_ms": each.retired_at_ms + READ_MS} for each in own.former]
    fields = {"places": [str(each) for each in own.current], "former": former}
    write_private(path, [f"{json.dumps(fields, indent=1)}\n".encode()])


def parse_place(text: str) -> Place:
    """Return the place that a person wrote: `mesh`, or a relay as KEY@HOST:PORT."""
    return MeshPlace() if text.strip() == "mesh" else parse_relay_place(text)


def check_places(places: Sequence[Place]) -> None:
    """Raise unless mail can be stored at these places, in this order."""
    if not 1 <= len(places) <= MAX_PLACES:
        raise ConfigurationInvalid(f"an identity has 1 to {MAX_PLACES} places for its mail, not {len(places)}")
    keys = [place.node_key if isinstance(place, RelayPlace) else None for place in places]
    if len(set(keys)) != len(keys):
        raise ConfigurationInvalid("a place is named twice: each relay key, and the mesh, may be named once")


def _decode_places(raw: bytes, path: Path) -> OwnPlaces:
    try:
        fields = json.loads(raw)
        places = [parse_place(str(each)) for each in fields["places"]]
        left = [(parse_place(str(each["place"])), int(each["until_ms"])) for each in fields["former"]]
    except (ValueError, KeyError, TypeError):
        raise Malformed(
            f"{path} must have 'places' and 'former', as 'restante id new' and 'restante places set' write them"
        ) from None
    check_places(places)
    return OwnPlaces(places, [FormerPlace(place, until_ms - READ_MS) for place, until_ms in left])


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)
