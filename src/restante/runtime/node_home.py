"""The files of a node's home directory: key, configuration, database and the lock of the running process."""

from dataclasses import dataclass
from pathlib import Path

from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.ports.entropy import Entropy
from restante.runtime.identity_files import create_identity, load_identity
from restante.runtime.private_file import create_private_directory, write_private


@dataclass(frozen=True, slots=True)
class NodeDirectory:
    """A directory that holds one node. `create` makes a new key in it."""

    path: Path

    @property
    def key(self) -> Path:
        return self.path / "key"

    @property
    def config(self) -> Path:
        return self.path / "node.toml"

    @property
    def database(self) -> Path:
        return self.path / "node.db"

    @property
    def wal(self) -> Path:
        """Return the path of SQLite's write-ahead log."""
        return self.path / "node.db-wal"

    @property
    def certificate(self) -> Path:
        """Return the path of the family certificate, which a node may have."""
        return self.path / "family"

    @property
    def onion_keys(self) -> Path:
        """Return the path of the onion keys of a node with role hop."""
        return self.path / "onion-keys"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def create(self, config_text: str, entropy: Entropy) -> Identity:
        """Create the directory of a new node. An existing one must be empty, so that nothing is overwritten."""
        create_private_directory(self.path)
        identity = create_identity(self.key, entropy)
        write_private(self.config, [config_text.encode()])
        return identity

    def check(self) -> None:
        """Raise unless this is the home directory of a node. Called before any file is created in it."""
        if not (self.key.is_file() and self.config.is_file()):
            raise RestanteError(
                f"{self.path} is not a node's directory: it needs the files {self.key.name} and {self.config.name}, "
                f"which 'restante node init' makes",
                code=Code.NOT_FOUND,
            )

    def identity(self) -> Identity:
        return load_identity(self.key)
