"""What nodes of the mesh see of a recipient, given to a linker with a list of addresses (NETWORK 6, test 6).

It recognises the public inbox of an address that it has, as docs/security.md says, and nothing else: no contacts inbox,
and no connection that serves both.
"""

import asyncio
from pathlib import Path

import pytest

from restante.model.ids import InboxKey
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS, bucket_at
from restante.testing.virtual_time import run_in_virtual_time
from support.mesh.memory_world import World, introduced
from support.mesh.proved_keys import Watching, keys_of
from support.spec.clauses import clause


@clause("6.5", "7.2", "11.6")
@pytest.mark.parametrize(
    ("rounds", "pause_s", "synced"), [(2, 60, 48), pytest.param(24, 3_600, FULL_SYNC_BUCKETS, marks=pytest.mark.soak)]
)
def test_a_linker_with_all_addresses_links_no_contacts_inbox_and_no_two_inboxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, pause_s: int, synced: int
) -> None:
    world, watching = World(tmp_path), Watching(monkeypatch)

    async def scenario() -> None:
        async with world.client("alice") as alice, world.client("bob") as bob:
            await introduced(alice, bob)
            for number in range(rounds):
                await (await alice.send("peer", f"there {number}")).delivered()
                await (await bob.send("peer", f"and back {number}")).delivered()
                await asyncio.sleep(pause_s)
            addresses, secret = [alice.identity.address, bob.identity.address], bob.identity.access_secret
        now = bucket_at(world.clock.now_ms())
        (tmp_path / "bob.db").unlink()
        async with world.client("bob", since=now - synced, run=1):  # a new device reads what others may have left
            await asyncio.sleep(20)

        buckets = range(now - synced, now + 2)
        recognised = set[InboxKey]().union(*(keys_of(each, b"", buckets) for each in addresses))
        of_bob, hidden = keys_of(addresses[1], b"", buckets), keys_of(addresses[1], secret, buckets)
        seen = set[InboxKey]().union(*watching.proved.values())
        assert len(seen & of_bob) >= synced
        assert len(seen & hidden) >= synced
        assert not seen & hidden & recognised, "no key of a contacts inbox follows from an address"
        for keys in watching.proved.values():
            assert keys <= recognised or not keys & recognised, "one connection, one inbox"
        assert not watching.put_on & watching.proved.keys(), "what puts proves nothing"

    run_in_virtual_time(scenario(), world.clock)
