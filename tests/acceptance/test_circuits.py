"""Circuits over real TLS: STORE and inner connections, what each hop sees, failures that name their place."""

import asyncio
import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from restante.client.circuits.circuit import CircuitFailed, ClientCircuit, short_key
from restante.client.circuits.pool import CircuitPool
from restante.client.circuits.store_fanout import StoreFanout
from restante.client.circuits.stream_transport import StreamTransport
from restante.core.circuit.pool import STORES
from restante.core.mesh_proofs.receipts import leaf_of, sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.ids import BlindedKey, NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.circuits.limits import HOP_IDLE_S
from restante.policy.circuits.path import Path
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.circuit.cells import BODY_BYTES
from restante.wire.circuit.streams import NO_ANSWER, StoreAnswer, StoreRequest
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope
from restante.wire.frames.codec import Unknown
from restante.wire.frames.mesh import MeshFrame
from restante.wire.frames.mesh_storage import UNLIMITED, GetRecord, MeshPut, MeshRoom, MeshStored
from restante.wire.mesh_keys import mesh_inbox_key
from restante.wire.storage_receipts import StorageReceipt
from support.circuit.network import HopNode, MemoryGuards, honest, network, pool_of
from support.mesh.scripted_node import BUCKET, SIGNER
from support.spec.clauses import clause
from support.system.wait_until import until_true

BLINDED = BlindedKey(SIGNER.public_key)
SECRET_TEXT = b"the sealed bytes that no guard may see" * 8


def envelope(sealed: bytes = SECRET_TEXT) -> bytes:
    key = mesh_inbox_key(BLINDED, BUCKET)
    return encode_envelope(Envelope(inbox_key=key, expires_at_ms=(BUCKET + 24) * 3_600_000, sealed=sealed))


async def store(pool: CircuitPool, nodes: Sequence[HopNode], sealed: bytes = SECRET_TEXT) -> list[object]:
    fanout = StoreFanout(pool)
    puts = [fanout.put(node.descriptor, BLINDED, BUCKET, envelope(sealed)) for node in nodes]
    return list(await asyncio.gather(*puts, return_exceptions=True))


async def inner(circuit: ClientCircuit, node: NodeDescriptor) -> MeshConnection:
    async def dial(protocol: asyncio.BufferedProtocol) -> None:
        await StreamTransport(circuit, protocol).open(node.node_id)

    return await MeshConnection.connect_over(dial, node=node.node_key)


@clause("11.1", "11.6")
async def test_one_upload_reaches_five_nodes_and_every_receipt_is_verified() -> None:
    async with network(8) as made, pool_of(made) as pool:
        answers = await store(pool, made.nodes[:5])
        assert all(isinstance(each, StorageReceipt) for each in answers), answers
        assert [len(node.stored) for node in made.nodes] == [1] * 5 + [0] * 3
        assert made.nodes[0].stored[0] == MeshPut(blinded=BLINDED, bucket=BUCKET, envelope=envelope())


@clause("11.6")
@pytest.mark.parametrize("size", [4_096, 200_000])
async def test_a_large_message_is_stored_through_the_windows(size: int) -> None:
    async with network(6) as made, pool_of(made) as pool:
        answers = await store(pool, made.nodes[:2], bytes(size))
        assert all(isinstance(each, StorageReceipt) for each in answers), answers


@clause("11.1", "11.5")
async def test_no_hop_sees_more_than_its_neighbours() -> None:
    async with network(8) as made, pool_of(made) as pool:
        circuit = await pool.acquire(STORES)
        target = next(node for node in made.nodes if node.node_id not in circuit.hops)
        [answer] = await store(pool, [target])
        assert isinstance(answer, StorageReceipt)
        guard, middle, exit_node = (made.node(each) for each in circuit.hops)
        seen = {hop.number: b"".join(frame.body for _, frame in hop.family.received) for hop in (guard, middle)}
        for hop in (guard, middle):
            assert SECRET_TEXT[:16] not in seen[hop.number]
            assert bytes(target.node_id) not in seen[hop.number]
        assert bytes(exit_node.node_id) not in seen[guard.number]
        # Client and guard are on different networks of the loopback device: only the guard hears from the client.
        assert {source for source, _ in guard.family.received} == {bytes([127, 0, 0])}
        sizes = {len(frame.body) for hop in (guard, middle, exit_node) for _, frame in hop.family.received}
        assert sizes <= set(BODY_BYTES.values())
        pieces = {
            hop: {body[at : at + 8] for body in made.node(hop).cells for at in range(len(body) - 7)}
            for hop in circuit.hops
        }
        for one, other in combinations(pieces, 2):
            assert pieces[one].isdisjoint(pieces[other])


@clause("11.6")
async def test_an_inner_connection_ends_at_the_node_and_binds_its_own_transcript() -> None:
    async with network(7) as made, pool_of(made) as pool:
        circuit = await pool.acquire("inbox")
        outside = [node for node in made.nodes if node.node_id not in circuit.hops]
        first = await inner(circuit, outside[0].descriptor)
        second = await inner(circuit, outside[1].descriptor)
        assert first.node == outside[0].identity.node_key
        assert first.binding != second.binding
        assert await first.get_record(b"k" * 32) is None
        assert [frame for _, frame in outside[0].asked if isinstance(frame, GetRecord)] == [GetRecord(key=b"k" * 32)]
        exit_node = made.node(circuit.hops[-1])
        seen = b"".join(frame.body for _, frame in exit_node.family.received)
        assert b"k" * 32 not in seen, "the exit passes on TLS"
        await first.close()
        await second.close()
        await until_true(lambda: circuit.streams == 0)


@clause("11.6")
async def test_another_node_behind_an_inner_connection_is_refused() -> None:
    async with network(7) as made, pool_of(made) as pool:
        circuit = await pool.acquire("inbox")
        outside = [node for node in made.nodes if node.node_id not in circuit.hops]
        claimed = replace(outside[0].descriptor, node_key=outside[1].identity.node_key)

        async def dial(protocol: asyncio.BufferedProtocol) -> None:
            await StreamTransport(circuit, protocol).open(outside[0].node_id)

        with pytest.raises(AttemptFailed) as raised:
            await MeshConnection.connect_over(dial, node=claimed.node_key)
        assert raised.value.failure is Failure.AUTHENTICATION_FAILED


@clause("11.6", "11.7")
async def test_an_exit_dials_only_nodes_of_its_directory() -> None:
    async with network(7) as made, pool_of(made) as pool:
        circuit = await pool.acquire("inbox")
        with pytest.raises(AttemptFailed, match=f"the exit {short_key(circuit.hops[-1])} does not know the node"):
            await circuit.begin(NodeId(b"?" * 32))
        with pytest.raises(AttemptFailed, match="does not know the node"):
            await circuit.begin(circuit.hops[-1])


@clause("6.6")
async def test_one_circuit_does_not_use_up_what_a_node_lets_its_exit_store() -> None:
    given, used = 40 * len(envelope()), 0

    def limiting(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
        nonlocal used
        if not isinstance(frame, MeshPut):
            return honest(node, frame)
        used += len(frame.envelope)
        return [MeshRoom(node_bytes=given - used, key_bytes=UNLIMITED), *honest(node, frame)]

    async with network(4) as made:
        for number in range(5, 9):
            await made.add(number, limiting)
        path = Path(**{name: made.nodes[at].descriptor for at, name in enumerate(("guard", "middle", "exit"))})
        target = made.nodes[-1]
        async with pool_of(made) as greedy, pool_of(made) as modest:
            for pool in (greedy, modest):
                pool._path = lambda *_: path  # type: ignore[method-assign]  # the same exit for both
            answers = [(await store(greedy, [target], b"%03d" % number * 100))[0] for number in range(12)]
            stored = [isinstance(each, StorageReceipt) for each in answers]
            assert stored == [True] * 4 + [False] * 8, "a tenth of 40"
            refused = {each.code for each in answers if isinstance(each, AttemptFailed)}
            assert refused == {Code.STORAGE_FAILED}
            assert len(target.stored) == 4, "the exit does not ask the node for what is over the circuit's part"
            [answer] = await store(modest, [target])
            assert isinstance(answer, StorageReceipt)
        exit_node = made.nodes[2]
        await until_true(lambda: not exit_node.family.circuits)
        assert not exit_node.family.exits._shares._circuits


def misfiled(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
    """Signs for another expiry than the one that was sent."""
    if not isinstance(frame, MeshPut):
        return honest(node, frame)
    sent = decode_envelope(frame.envelope)
    other = replace(sent, expires_at_ms=sent.expires_at_ms + 3_600_000)
    return [MeshStored(receipt=sign_receipts_of_commit(node.identity, [leaf_of(other)], now_ms=1)[0])]


def stranger(node: HopNode, frame: MeshFrame | Unknown) -> Sequence[MeshFrame]:
    """Answers with the signature of a node that was not asked."""
    if not isinstance(frame, MeshPut):
        return honest(node, frame)
    leaf = leaf_of(decode_envelope(frame.envelope))
    return [MeshStored(receipt=sign_receipts_of_commit(Identity(b"s" * 32), [leaf], now_ms=1)[0])]


@clause("11.6")
@pytest.mark.parametrize("lie", [misfiled, stranger])
async def test_a_receipt_for_something_else_is_no_receipt(lie: object) -> None:
    async with network(8, lie) as made, pool_of(made) as pool:  # type: ignore[arg-type]  # parametrized answers
        answers = await store(pool, made.nodes[:5])
        assert all(isinstance(each, AttemptFailed) for each in answers), answers
        assert {each.code for each in answers if isinstance(each, AttemptFailed)} == {Code.STORAGE_FAILED}


OTHER_KEY = mesh_inbox_key(BlindedKey(bytes(32)), BUCKET)


@clause("11.6", "11.7")
@pytest.mark.parametrize(
    "change",
    [{"expires_at_ms": (BUCKET + 25) * 3_600_000}, {"inbox_key": OTHER_KEY}],
    ids=["expiry", "inbox key"],
)
async def test_an_exit_that_alters_what_it_stores_gets_no_receipt_counted_and_is_named(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(9) as made, pool_of(made) as pool:
        for node in made.nodes:
            exits = node.family.exits

            async def misfile(
                circuit: Hashable, request: StoreRequest, place: int, put: Any = exits.put
            ) -> StoreAnswer:
                altered = encode_envelope(replace(decode_envelope(request.envelope), **change))
                answer: StoreAnswer = await put(circuit, request._replace(envelope=altered), place)
                return answer

            monkeypatch.setattr(exits, "put", misfile)
        answers = await store(pool, made.nodes[:5])
        assert all(node.stored for node in made.nodes[:5]), "the nodes are honest, and signed what the exit sent"
        hops = {short_key(node.node_id) for node in made.nodes}
        for each in answers:
            assert isinstance(each, AttemptFailed)
            assert each.code is Code.STORAGE_FAILED
            named = re.fullmatch(r"the exit ([0-9a-f]{8}) passed on a receipt that does not verify", str(each))
            assert named is not None
            assert named[1] in hops


@clause("11.1")
async def test_too_few_hops_are_e002_and_say_so() -> None:
    async with network(5) as made, pool_of(made) as pool:
        with pytest.raises(CircuitFailed, match="mesh too small for circuits: 5 reachable") as raised:
            await pool.acquire(STORES)
        assert raised.value.code is Code.CIRCUIT_BUILD_FAILED


@clause("11.7")
async def test_no_guard_that_can_be_dialled_is_e001() -> None:
    async with network(6) as made, pool_of(made) as pool:
        for node in made.nodes:
            await node.stop()
        with pytest.raises(CircuitFailed, match=r"the guard .* can't be reached") as raised:
            await pool.acquire(STORES)
        assert raised.value.code is Code.NETWORK_UNREACHABLE


@clause("11.3", "11.7")
@pytest.mark.parametrize("place", [1, 2])
async def test_a_dead_hop_is_named_and_another_path_is_taken(place: int) -> None:
    async with network(8) as made, pool_of(made) as pool:
        first = await pool.acquire(STORES)
        dead = made.node(first.hops[place])
        await dead.stop()
        await until_true(lambda: not first.is_open)
        circuit = pool._path
        path = Path(
            guard=first.path.guard,
            middle=dead.descriptor if place == 1 else first.path.middle,
            exit=dead.descriptor if place == 2 else first.path.exit,
        )
        paths = [path]
        pool._path = lambda *args: paths.pop() if paths else circuit(*args)  # type: ignore[method-assign]
        again = await pool.acquire(STORES)
        assert dead.node_id not in again.hops
        assert pool.status().failures == {("middle", "exit")[place - 1]: 1}
        target = next(node for node in made.nodes if node.node_id not in again.hops and node is not dead)
        assert isinstance((await store(pool, [target]))[0], StorageReceipt)


@clause("11.4")
async def test_the_same_guard_is_used_again_after_a_restart() -> None:
    guards = MemoryGuards()
    async with network(8) as made:
        used = set()
        for _ in range(4):
            async with pool_of(made, guards) as pool:
                used.add((await pool.acquire(STORES)).hops[0])
        assert len(used) == 1
        assert len(guards.state.guards) == 3
        assert guards.saves == 1


@clause("11.1")
async def test_a_node_that_is_a_hop_gets_its_copy_over_another_circuit() -> None:
    async with network(6) as made, pool_of(made) as pool:
        answers = await store(pool, made.nodes[:5])
        assert all(isinstance(each, StorageReceipt) for each in answers), answers
        assert [len(node.stored) for node in made.nodes[:5]] == [1] * 5


@clause("11.6")
async def test_a_node_that_one_exit_says_it_cannot_reach_is_asked_over_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with network(9) as made, pool_of(made) as pool:
        first = await pool.acquire(STORES)
        lying = made.node(first.hops[-1])

        async def no_answer(_circuit: object, _request: StoreRequest, place: int) -> StoreAnswer:
            return StoreAnswer(place, NO_ANSWER, b"")

        monkeypatch.setattr(lying.family.exits, "put", no_answer)
        nodes = [node for node in made.nodes if node.node_id not in first.hops][:5]
        answers = await store(pool, nodes)
        assert all(isinstance(each, StorageReceipt) for each in answers), answers
        assert first.is_open


@clause("11.3", "11.5")
async def test_a_hop_ends_a_circuit_that_was_used_and_is_silent_and_keeps_a_spare() -> None:
    async with network(6) as made, pool_of(made) as pool:
        used, spare = await pool.acquire(STORES), await pool.acquire("another use")
        target = next(node for node in made.nodes if node.node_id not in used.hops)
        assert isinstance((await store(pool, [target]))[0], StorageReceipt)
        for node in made.nodes:
            now_s = node.family.now_s() + HOP_IDLE_S + 1
            node.family.now_s = lambda now_s=now_s: now_s  # type: ignore[misc,method-assign]  # a clock of its own
            node.family._sweep()
        await until_true(lambda: not used.is_open)
        assert spare.is_open
        for node in made.nodes:
            assert all(not circuit.is_used for circuit in node.family.circuits)


@clause("11.5")
async def test_a_client_that_creates_too_many_circuits_gets_destroy() -> None:
    async with network(6) as made, pool_of(made) as pool:
        first = await pool.acquire(STORES)
        connection = first._connection
        circuits = [
            ClientCircuit(first.path, connection, entropy=pool._entropy, on_ended=lambda _c: None) for _ in range(60)
        ]
        built = await asyncio.gather(*(each.built for each in circuits), return_exceptions=True)
        refused = [each for each in built if isinstance(each, CircuitFailed)]
        assert 35 <= len(refused) < 60
        assert first.is_open
