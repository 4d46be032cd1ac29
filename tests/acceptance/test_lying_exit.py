"""One exit that answers in the name of a message's nodes, and nodes that really answer so, over real circuits."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Hashable, Sequence

from restante.client.circuits.mesh_circuits import MeshCircuits
from restante.client.mesh.connector import connect_to_node
from restante.client.mesh.directory import MeshDirectory
from restante.client.mesh.storing import MeshStorage
from restante.core.directory.vouchers import VOUCHERS, Named
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, NodeDescriptor, Role
from restante.policy.circuits.path import Path
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.ports.carrier import StoredByNode
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.circuit.streams import StoreAnswer, StoreRequest
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import decode_envelope
from restante.wire.frames.codec import FrameType, Refused, Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_storage import MeshPut, MeshStored, NotResponsible, WrongBucket
from restante.wire.inbox_keys import node_id_of
from restante.wire.mesh_keys import mesh_inbox_key
from support.circuit.network import HopNode, Network, honest, network, pool_of
from support.outbox.entries import entry
from support.spec.clauses import clause

CLOCK = SystemClock()


class Sender:
    """A client whose first circuit ends at `first_exit`, none of whose hops is one of the five nodes of the inbox."""

    def __init__(self, made: Network, directory: MeshDirectory, owner: Identity, exit_node: HopNode) -> None:
        self.made, self.directory, self.owner, self.exit = made, directory, owner, exit_node

    @property
    def five(self) -> list[NodeDescriptor]:
        return self.directory.place(self.key_in(bucket_at(CLOCK.now_ms())), COPIES)

    def key_in(self, bucket: int) -> bytes:
        return bucket_keys(self.owner.address, bucket).inbox_key

    async def store(self) -> tuple[StoredByNode, ...]:
        storage = MeshStorage(self.directory)
        message = entry(1, payload=os.urandom(5_000), expires_at_ms=CLOCK.now_ms() + 30 * 24 * HOUR_MS)
        try:
            return await storage.store(message, recipient=self.owner.address, access_secret=b"")
        finally:
            await storage.close()


@contextlib.asynccontextmanager
async def sender(
    answer: Callable[[HopNode, MeshFrame | Unknown], Sequence[MeshFrame]] = honest,
) -> AsyncIterator[Sender]:
    async with network(14, answer) as made, pool_of(made) as pool:
        directory = MeshDirectory((), connect_to_node, clock=CLOCK, entropy=SystemEntropy())
        directory._vouchers_needed = VOUCHERS  # as after a download from three families
        raws = [encode_descriptor(node.descriptor) for node in made.nodes]
        directory._take(*(Named(bytes([number]), directory.verified(raws)) for number in range(3)))
        directory._refreshed_at_ms = CLOCK.now_ms()
        directory.connections.circuits = MeshCircuits(pool, on_rotating=directory.connections.replace)
        owner, free = inbox_with_free_hops(made, directory)
        guard, middle, exit_node = free
        choose, paths = pool._path, [Path(guard=guard.descriptor, middle=middle.descriptor, exit=exit_node.descriptor)]
        pool._path = lambda *wanted: paths.pop() if paths else choose(*wanted)  # type: ignore[method-assign]
        yield Sender(made, directory, owner, exit_node)
        await directory.close()


def inbox_with_free_hops(made: Network, directory: MeshDirectory) -> tuple[Identity, list[HopNode]]:
    """Return an inbox, and three nodes that store nothing for it."""
    owner = Identity(bytes(32))
    five = {
        each.node_id for each in directory.place(bucket_keys(owner.address, bucket_at(CLOCK.now_ms())).inbox_key, 5)
    }
    return owner, [node for node in made.nodes if node.node_id not in five][:3]


def position_of(number: int) -> int:
    """Return where a node with this number would be placed."""
    return int.from_bytes(node_id_of(Identity(bytes([number]) * 32).node_key), "big")


def descriptor_of(identity: Identity, number: int) -> NodeDescriptor:
    unsigned = NodeDescriptor(
        node_key=identity.node_key,
        onion_key=bytes(32),
        endpoints=(Endpoint(bytes([80 + number, 1, 1, 1]), 443),),
        roles=Role.STORAGE,
        issued_at_ms=CLOCK.now_ms(),
        expires_at_ms=CLOCK.now_ms() + 2 * HOUR_MS,
    )
    return sign_descriptor(unsigned, identity)


def invented(key: bytes, five: Sequence[NodeDescriptor], count: int = 6) -> dict[NodeId, tuple[Identity, bytes]]:
    """Return nodes that exist nowhere, closer to the key than all others."""
    position = int.from_bytes(key, "big")
    closest = min(node.position ^ position for node in five)
    found: dict[NodeId, tuple[Identity, bytes]] = {}
    while len(found) < count:
        identity = Identity(os.urandom(32))
        node_id = node_id_of(identity.node_key)
        if int.from_bytes(node_id, "big") ^ position < closest:
            found[node_id] = identity, encode_descriptor(descriptor_of(identity, len(found)))
    return found


def answered(place: int, frame: MeshFrame) -> StoreAnswer:
    return StoreAnswer(place, frame.TYPE, frame.body())


@clause("7.10", "11.6")
async def test_an_exit_that_names_invented_nodes_for_all_five_gets_no_mail() -> None:
    async with sender() as client:
        made_up: dict[NodeId, tuple[Identity, bytes]] = {}

        async def lie(_circuit: Hashable, request: StoreRequest, place: int) -> StoreAnswer:
            if not made_up:
                made_up.update(invented(mesh_inbox_key(request.blinded, request.bucket), client.five))
            if request.nodes[place] in made_up:
                leaf = leaf_of(decode_envelope(request.envelope))
                identity, _ = made_up[request.nodes[place]]
                [receipt] = sign_receipts_of_commit(identity, [leaf], now_ms=CLOCK.now_ms())
                return answered(place, MeshStored(receipt=receipt))
            better = tuple(raw for _, raw in made_up.values())
            return answered(place, NotResponsible(time_ms=CLOCK.now_ms(), descriptors=better))

        client.exit.family.exits.put = lie  # type: ignore[assignment,method-assign]
        five = {node.node_id for node in client.five}
        stored = await client.store()
        assert made_up, "the exit was asked"
        assert {each.node for each in stored} == five
        assert not any(client.directory.get(node) for node in made_up)


@clause("7.10", "11.6")
async def test_an_exit_that_names_another_hour_for_all_five_moves_no_mail() -> None:
    async with sender() as client:
        asked = 0

        async def lie(_circuit: Hashable, _request: StoreRequest, place: int) -> StoreAnswer:
            nonlocal asked
            asked += 1
            return answered(place, WrongBucket(time_ms=CLOCK.now_ms() + 5 * HOUR_MS))

        client.exit.family.exits.put = lie  # type: ignore[assignment,method-assign]
        bucket = bucket_at(CLOCK.now_ms())
        assert len(await client.store()) == COPIES
        assert asked == COPIES
        assert {put.bucket for node in client.made.nodes for put in node.stored} <= {bucket, bucket + 1}


@clause("7.3", "11.6")
async def test_an_exit_that_refuses_for_all_five_moves_no_mail_to_farther_nodes() -> None:
    async with sender() as client:
        asked = 0

        async def lie(_circuit: Hashable, _request: StoreRequest, place: int) -> StoreAnswer:
            nonlocal asked
            asked += 1
            refused = Refused(permanent=False, code=Code.STORAGE_FAILED, retry_after_ms=0, text="")
            return StoreAnswer(place, FrameType.REFUSED, refused.body())

        client.exit.family.exits.put = lie  # type: ignore[assignment,method-assign]
        five = {node.node_id for node in client.five}
        assert {each.node for each in await client.store()} == five
        assert asked == COPIES


@clause("7.10", "11.6")
async def test_nodes_of_another_hour_move_a_message_through_circuits() -> None:
    ahead = bucket_at(CLOCK.now_ms() + 5 * HOUR_MS)

    def of_another_hour(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
        if isinstance(frame, MeshPut) and frame.bucket < ahead:
            return [WrongBucket(time_ms=ahead * HOUR_MS + 1)]
        return honest(node, frame)

    async with sender(of_another_hour) as client:
        assert len(await client.store()) >= 2
        assert {put.bucket for node in client.made.nodes for put in node.stored} == {ahead}


@clause("7.10", "11.6")
async def test_better_nodes_that_two_nodes_name_over_two_exits_get_the_message() -> None:
    new: list[HopNode] = []

    def names_better(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
        if isinstance(frame, MeshPut) and node not in new:
            better = tuple(encode_descriptor(each.descriptor) for each in new)
            return [NotResponsible(time_ms=CLOCK.now_ms(), descriptors=better)]
        return honest(node, frame)

    async with sender(names_better) as client:
        position = int.from_bytes(client.key_in(bucket_at(CLOCK.now_ms())), "big")
        by_distance = sorted(range(20, 100), key=lambda number: position_of(number) ^ position)
        new += [await client.made.add(number, names_better) for number in by_distance[:2]]
        assert {each.node for each in await client.store()} == {node.node_id for node in new}
