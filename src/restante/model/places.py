"""Where a contact's mail is stored: an ordered list of places (SPEC 3.14), each a named relay or the mesh."""

from dataclasses import dataclass

from restante.model.ids import NodeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayPlace:
    """A named relay: the key it must prove, and the host and port where it listens."""

    node_key: NodeKey
    host: str
    port: int

    def __str__(self) -> str:
        """Return the place as people write it: `KEY@HOST:PORT`, an IPv6 host in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.node_key.hex()}@{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class MeshPlace:
    """The mesh. Which nodes store what follows from the address and the time, so there is nothing to name."""

    def __str__(self) -> str:
        return "mesh"


Place = RelayPlace | MeshPlace
