"""What one exit sees of a recipient with two inboxes over a day and a full sync, given to a linker with a list of
addresses (NETWORK 6, test 6): it guesses a public inbox by its nodes, as docs/security.md says, and no contacts inbox.

The pool, rotation and paths are the client's own (`support.circuit.memory_circuits`). That an exit receives nothing
else of a client is shown on real processes, in tests/acceptance/test_circuits_end_to_end.py.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from restante.client.places.reading import PUBLIC_INBOX
from restante.core.circuit.pool import STORES
from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.crypto.identity import Identity
from restante.model.ids import Address, InboxKey, NodeId
from restante.policy.mesh.placement import COPIES, PlacementIndex, place
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS, bucket_at
from restante.testing.virtual_time import run_in_virtual_time
from support.circuit.memory_circuits import Begun, SeenCircuit, Stored, use_memory_circuits
from support.mesh.memory_world import World, introduced
from support.mesh.proved_keys import Watching, keys_of
from support.spec.clauses import clause

NODES = 60
STRANGERS = 60


class Linker:
    """Has the list of addresses and the directory, and looks at what one exit saw."""

    def __init__(self, addresses: Sequence[Address], index: PlacementIndex) -> None:
        self._addresses = addresses
        self._index = index
        self._five: dict[tuple[Address, int], frozenset[NodeId]] = {}

    def guesses(self, circuit: SeenCircuit) -> set[Address]:
        """Return the addresses whose public inbox has all nodes that the circuit asked in one hour, if these are two
        or more."""
        by_hour: dict[int, set[NodeId]] = {}
        for each in circuit.asked:
            if isinstance(each, Begun):
                by_hour.setdefault(bucket_at(each.at_ms), set()).add(each.node)
        return {
            address
            for hour, nodes in by_hour.items()
            if len(nodes) > 1
            for address in self._addresses
            if nodes <= set().union(*(self.five(address, each) for each in (hour, hour + 1)))
        }

    def five(self, address: Address, bucket: int) -> frozenset[NodeId]:
        known = self._five.get((address, bucket))
        if known is None:
            key = bucket_keys(address, bucket, b"").inbox_key
            known = frozenset(each.node_id for each in place(self._index, key, COPIES))
            self._five[address, bucket] = known
        return known

    def recipients(self, circuit: SeenCircuit) -> Iterator[Address]:
        """Yield the addresses whose public inbox a STORE names."""
        for each in circuit.asked:
            if isinstance(each, Stored):
                yield from (a for a in self._addresses if bucket_keys(a, each.bucket, b"").blinded == each.blinded)


@clause("6.5", "7.2", "11.6")
@pytest.mark.parametrize(
    ("rounds", "pause_s", "synced"),
    [(6, 1_200, 48), pytest.param(24, 3_600, FULL_SYNC_BUCKETS, marks=pytest.mark.soak)],
)
def test_an_exit_with_all_addresses_links_no_contacts_inbox_and_no_two_inboxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, pause_s: int, synced: int
) -> None:
    world = World(tmp_path, nodes=NODES, uses_circuits=True)
    seen = use_memory_circuits(monkeypatch, world.mesh)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            for number in range(rounds):
                await (await alice.send("peer", f"there {number}")).delivered()
                await (await bob.send("peer", f"and back {number}")).delivered()
                await asyncio.sleep(pause_s)
            addresses = [alice.identity.address, bob.identity.address]
        now, day = bucket_at(world.clock.now_ms()), len(seen)
        (tmp_path / "bob.db").unlink()
        async with world.client("bob", since=now - synced, run=1):  # a new device reads everything
            await asyncio.sleep(60)

        strangers = [Identity(bytes([1, number]) * 16).address for number in range(STRANGERS)]
        linker = Linker([*addresses, *strangers], world.mesh.index())
        for circuit in seen:
            assert len(circuit.uses) <= 1, "a circuit has one use"
            assert len({type(each) for each in circuit.asked}) <= 1, "STOREs or inner connections, never both"
        public = [each for each in seen[:day] if each.uses == {PUBLIC_INBOX}]
        contacts = [each for each in seen if each.uses == {"contacts inbox 0"}]
        stores = [each for each in seen if each.asked and each.uses == {STORES}]
        assert min(map(len, (public, contacts, stores))) >= rounds

        # What an exit can do: guess whose public inbox a circuit reads, by the nodes that it asks.
        guessed = [linker.guesses(each) for each in public]
        assert sum(not found.isdisjoint(addresses) for found in guessed) >= rounds
        # What it can't: the nodes of a contacts inbox fit its owner no better than anybody else, sync or not.
        hits = Counter(address for each in contacts for address in linker.guesses(each))
        assert max(hits[each] for each in addresses) <= max(hits[each] for each in strangers)
        # Of a STORE it recognises public inboxes, and contacts write to each other's contacts inboxes.
        named = [set(linker.recipients(each)) for each in stores]
        assert set().union(*named) <= set(addresses)
        assert sum(not each for each in named) >= rounds

    run_in_virtual_time(scenario(), world.clock)


@clause("6.5", "7.2", "11.6")
@pytest.mark.parametrize(
    ("rounds", "pause_s", "synced"), [(3, 600, 48), pytest.param(24, 3_600, FULL_SYNC_BUCKETS, marks=pytest.mark.soak)]
)
def test_all_exits_and_storage_nodes_together_link_hours_of_one_inbox_and_no_two_inboxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, pause_s: int, synced: int
) -> None:
    world, watching = World(tmp_path, nodes=NODES, uses_circuits=True), Watching(monkeypatch)
    seen = use_memory_circuits(monkeypatch, world.mesh)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            for number in range(rounds):
                await (await alice.send("peer", f"there {number}")).delivered()
                await (await bob.send("peer", f"and back {number}")).delivered()
                await asyncio.sleep(pause_s)
            people = [alice.identity, bob.identity]
        now = bucket_at(world.clock.now_ms())
        (tmp_path / "bob.db").unlink()
        async with world.client("bob", since=now - synced, run=1):  # a new device reads everything
            await asyncio.sleep(60)

        buckets = range(now - synced, now + 2)
        inboxes = [keys_of(each.address, secret, buckets) for each in people for secret in (b"", each.access_secret)]
        joined = [set[InboxKey]().union(*(watching.proved[inner] for inner in each.connections)) for each in seen]
        for keys in joined:
            assert sum(not keys.isdisjoint(inbox) for inbox in inboxes) <= 1, "a circuit reads one inbox"
        assert max(map(len, joined)) > 2, "a sync asks for many hours over one circuit, which belong together"
        read = [inbox for inbox in inboxes if any(keys & inbox for keys in joined)]
        assert len(read) == len(inboxes), "all four inboxes were read over circuits"

    run_in_virtual_time(scenario(), world.clock)
