"""Real clients over real node processes: nodes are killed, cut off, wrong about the time, and lie.

All mail for someone who is away arrives once and in order, and the journals of both sides account for all of it.
"""

import asyncio
from pathlib import Path

import pytest

from restante.cli.node.local_network import start, wait_until_joined
from restante.policy.mesh.time_buckets import bucket_at
from restante.runtime.system import SystemClock
from support.mesh import bad_node
from support.mesh.bad_node import Firewall
from support.mesh.client_world import (
    all_stored,
    assert_accounted_for,
    assert_no_address,
    configure,
    id_of,
    introduced,
    opened,
    parts,
    read_all,
    world,
)
from support.mesh.evidence import altering_nodes, withholding_nodes
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import LIMIT_S

SIZES = [(6, 48), (12, 4_000)]
TWO_HOURS_MS = 7_200_000


@clause("1.4", "7.3", "7.9")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak(SIZES))
async def test_everything_arrives_once_in_order_although_a_third_of_the_nodes_is_killed(
    tmp_path: Path, count: int, messages: int
) -> None:
    third = count // 3
    with world(tmp_path, count + third) as made:
        first, spares = made.nodes[:count], made.nodes[count:]
        for node in made.nodes:
            configure(node)
        for node in first:
            start(node)
        wait_until_joined(first)
        before = opened(made.homes[1])
        async with opened(made.homes[0]) as alice, asyncio.timeout(LIMIT_S + messages / 5):
            await introduced(alice, before)
            await before.close()
            texts = [f"message {number}" for number in range(messages)]
            sent = []
            for part, victim, spare in zip(parts(texts, third), first[3:], spares, strict=False):
                sent += await alice.send_many("peer", part)
                assert victim.process is not None
                victim.process.kill()
                start(spare)
            await all_stored(alice)
            async with opened(made.homes[1]) as bob:
                assert await read_all(bob, messages) == texts
                await assert_accounted_for(alice, bob, sent)
        wait_until_joined(spares)  # all may have been read before the last one was up
        assert_no_address(made)


@clause("1.4", "7.5", "7.11", "13.5")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak([(7, 30), (12, 4_000)]))
async def test_everything_arrives_past_a_partition_wrong_clocks_and_liars_and_each_liar_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, messages: int
) -> None:
    with world(tmp_path, count) as made:
        began, nodes = bucket_at(SystemClock().now_ms()), made.closest_to_bob()
        lies = {0: "drops", 1: "alters"} | ({2: "hides"} if count >= 12 else {})
        # A bootstrap node has too few others to ask for the time when all start at once.
        honest = [at for at, node in enumerate(nodes) if at not in lies and node not in made.nodes[:3]]
        clocks = {honest[0]: TWO_HOURS_MS, honest[1]: -TWO_HOURS_MS}
        here, there = nodes[::2], nodes[1::2]
        walls = {id(node): Firewall(tmp_path / f"{node.place.host}.cut") for node in nodes}
        for at, node in enumerate(nodes):
            configure(node, offset_ms=clocks.get(at, 0))
            start(node, bad_node.command(lies.get(at, "honest"), walls[id(node)].file))
        own_wall = Firewall(tmp_path / "people.cut")
        own_wall.install(monkeypatch.setattr)
        wait_until_joined(nodes)

        def partition(is_cut: bool) -> None:
            for side, other in ((here, there), (there, here)):
                for node in side:
                    walls[id(node)].cut([each.place.host for each in other] if is_cut else [])
            own_wall.cut([each.place.host for each in there] if is_cut else [])

        texts = [f"message {number}" for number in range(messages)]
        before = opened(made.homes[1], offset_ms=-TWO_HOURS_MS)
        async with (
            opened(made.homes[0], offset_ms=TWO_HOURS_MS) as alice,
            asyncio.timeout(LIMIT_S + messages / 5),
        ):
            await introduced(alice, before)
            await before.close()
            sent = []
            for part, is_cut in zip(parts(texts, 3), (False, True, False), strict=True):
                partition(is_cut)
                sent += await alice.send_many("peer", part)
                await all_stored(alice)
            async with opened(made.homes[1], offset_ms=-TWO_HOURS_MS) as bob:
                assert await read_all(bob, messages) == texts
                await assert_accounted_for(alice, bob, sent)
                named = {"withholding": withholding_nodes(alice, bob), "altering": altering_nodes(bob)}
        expected = {
            "withholding": {id_of(nodes[at]) for at, lie in lies.items() if lie != "alters"},
            "altering": {id_of(nodes[at]) for at, lie in lies.items() if lie == "alters"},
        }
        assert all(named[lie] <= expected[lie] for lie in named), "no honest node is named"
        if bucket_at(SystemClock().now_ms()) == began:  # else other nodes than these liars are the closest
            assert named == expected
        assert_no_address(made)
