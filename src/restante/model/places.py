"""Where a contact's mail is stored: an ordered list of places (SPEC 3.14). Today each place is a named relay."""

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


Place = RelayPlace
"""Every kind of place. The mesh will be the second one."""
