"""Nodes that lie about mail: all of it is read from the honest ones, and each liar is named by what it signed."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from restante.core.replication.serving import SyncFinished
from restante.core.replication.serving import step as serving_step
from restante.model.ids import NodeId
from restante.policy.mesh.placement import place
from restante.runtime.sqlite.mesh.store import FoundBlocks
from restante.testing.deterministic import FakeClock
from support.mesh.mesh_driver import MeshDriver
from support.mesh.running_nodes import NOW_MS, OpenInbox, RunningNode, inbox_now, introduce, running_node
from support.spec.clauses import clause

BODIES = [b"message %d" % number for number in range(20)]


def hides(node: RunningNode, _inbox: OpenInbox, patch: pytest.MonkeyPatch) -> None:
    """It stores and signs, and lists nothing."""
    patch.setattr(node.service.store, "listed", lambda _key, **_more: [])


def drops(node: RunningNode, _inbox: OpenInbox, patch: pytest.MonkeyPatch) -> None:
    """It signs and stores nothing."""
    patch.setattr(node.service.store, "put_all", lambda puts, **_more: [None] * len(puts))


def alters(node: RunningNode, inbox: OpenInbox, patch: pytest.MonkeyPatch) -> None:
    """It serves other bytes under the hash that it was asked for."""
    read = node.service.store.read

    def altered(key: Any, hashes: Any, **more: Any) -> FoundBlocks:
        found = read(key, hashes, **more)
        forged = [
            type(each)(blinded=each.blinded, bucket=each.bucket, envelope=inbox.envelope(b"x")) for each in found.blocks
        ]
        return FoundBlocks(forged, [])

    patch.setattr(node.service.store, "read", altered)


@clause("13.5", "7.4", "7.8")
async def test_mail_is_read_past_liars_and_each_is_named_with_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(NOW_MS)
    async with contextlib.AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(running_node(tmp_path / str(number), number, clock=clock))
            for number in range(1, 8)
        ]
        introduce(nodes)
        for node in nodes:
            view = node.service.view
            view.serving, _ = serving_step(view.serving, SyncFinished(answered=6, asked=6), now_ms=NOW_MS)
        inbox = inbox_now(clock)
        by_id = {each.service.view.own.node_id: each for each in nodes}
        first_five: list[NodeId] = [each.node_id for each in place(nodes[0].service.view.index(), inbox.key)]
        liars = dict(zip((alters, hides, drops), first_five, strict=False))
        for lie, node_id in liars.items():
            lie(by_id[node_id], inbox, monkeypatch)
        sender, reader = MeshDriver(), MeshDriver()
        for driver in (sender, reader):
            await driver.learn(nodes[0].place)
        assert all([await sender.store(inbox, body) for body in BODIES])
        assert sorted(await reader.read(inbox)) == sorted(BODIES)
        assert reader.forged_by == {liars[alters]}
        # A storage receipt of the node, and its later signed answer that lacks the blob, are the evidence (SPEC 13.5).
        assert {node for node, _ in reader.missing_at} == {liars[hides], liars[drops]}
        assert all(sender.receipts[node] == len(BODIES) for node in first_five)
        for driver in (sender, reader):
            await driver.close()
