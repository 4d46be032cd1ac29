"""Which nodes store mail for an address now, and which should: for people who look into the mesh."""

import asyncio
from typing import NamedTuple

from restante.client.mesh.connections import dial_places
from restante.client.mesh.directory import MeshDirectory, MeshUnknown
from restante.client.places.reading import PUBLIC_INBOX
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.core.mesh_proofs.connection_proofs import OwnProofs
from restante.crypto.blinded_keys import BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import Address
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import COMPLETE_WITHIN, COPIES
from restante.policy.mesh.time_buckets import bucket_at
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemEntropy
from restante.wire.frames.mesh_types import MeshFrameType


class Holder(NamedTuple):
    """One node. `messages` is known for the own inbox only: a node lists an inbox to its owner only."""

    node: str
    place: str
    should_store: bool
    answers: bool
    messages: int | None


async def closest(directory: MeshDirectory, key: bytes) -> list[NodeDescriptor]:
    """Ask ever closer nodes for those closest to a key. Raises `MeshUnknown` if none answers."""
    await directory.ensure_fresh()
    found = await directory.look_up(key)
    if not found:
        raise MeshUnknown("none of the known mesh nodes answers")
    return found


async def holders(directory: MeshDirectory, reader: Identity, address: Address) -> list[Holder]:
    """Ask the nodes around the public inbox of an address in the current bucket."""
    bucket = bucket_at(directory.now_ms())
    await directory.ensure_fresh()
    nodes = await directory.find(bucket_keys(address, bucket).inbox_key, COMPLETE_WITHIN)
    asking = (
        _ask(directory, each, reader if reader.address == address else None, bucket, should_store=rank < COPIES)
        for rank, each in enumerate(nodes)
    )
    return list(await asyncio.gather(*asking))


async def _ask(
    directory: MeshDirectory, node: NodeDescriptor, reader: Identity | None, bucket: int, *, should_store: bool
) -> Holder:
    answers, messages = False, None
    try:
        connection = await directory.connections.get(node, PUBLIC_INBOX)
        answers = True
        if reader is not None:
            signer = BlindedSigner(reader, place=in_period(bucket))
            proofs = OwnProofs(challenge=connection.hello.challenge, connection=connection.binding)
            entry = proofs.entry(signer, bucket, MeshFrameType.FETCH, draw=SystemEntropy().draw)
            listed = await connection.fetch([entry])
            messages = sum(map(len, listed.listed.values()))
    except AttemptFailed:
        pass
    return Holder(node.node_id.hex(), str(dial_places(node)[0]), should_store, answers, messages)
