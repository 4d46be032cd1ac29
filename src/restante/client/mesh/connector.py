"""Opens connections to nodes of the mesh: TLS pinned to the node's key."""

from restante.model.places import RelayPlace
from restante.ports.mesh_connection import MeshConnection
from restante.runtime.transport.mesh_connection import MeshConnection as TlsMeshConnection


async def connect_to_node(place: RelayPlace) -> MeshConnection:
    return await TlsMeshConnection.connect(place.host, place.port, node=place.node_key)
