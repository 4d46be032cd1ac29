"""The fleet's action `repair` in a mesh of real node processes: a node that lost a copy fetches it again."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from restante.cli.fleet.action_files import ActionFiles
from restante.cli.node.local_network import LocalNode
from restante.core.source_usage import SourceUsage
from restante.crypto.identity import Identity
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import PayloadHash
from restante.model.journal import JournalEvent, JournalKind
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mesh.store import SqliteMeshStore
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.envelope import hash_sealed_bytes
from support.mesh.mesh_driver import MeshDriver, inbox_of_this_hour
from support.mesh.node_processes import Processes, kill, mesh
from support.relay.node_processes import restante
from support.spec.clauses import clause
from support.system.wait_until import until

COPIES = 5
OPERATOR = Identity(bytes(32))
MONTH_MS = 30 * 86_400_000
BODY = b"a message"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with mesh(tmp_path / "mesh", COPIES) as made:
        made.start(*made.nodes)
        made.settle(*made.nodes)
        until(lambda: all(stats["neighbours"] == COPIES - 1 for stats in map(made.stats, made.nodes)))
        yield made  # from here on no node runs a round by itself


def reap_too_early(node: LocalNode) -> None:
    """Delete what the node holds as its reaper would by a clock that is a month ahead. The node runs meanwhile."""
    database = Database(node.directory.database, schema="node")
    journal = Journal(database, SystemEntropy())
    store = SqliteMeshStore(database, journal, tag_secret=b"secret", sources=SourceUsage())
    assert store.collect_garbage(now_ms=SystemClock().now_ms() + MONTH_MS, limit=10) == 1
    store.close()
    database.close()


def events(node: LocalNode) -> list[JournalEvent]:
    database = Database(node.directory.database, schema="node", read_only=True)
    try:
        return Journal(database, SystemEntropy()).events(after=0, limit=1_000)
    finally:
        database.close()


def propose(actions: Path, node: LocalNode, lost: PayloadHash) -> None:
    now_ms = SystemClock().now_ms()
    files = ActionFiles(actions, OPERATOR, expires_at_ms=now_ms + 60_000)
    files.add(
        FleetAction(
            action=ActionKind.REPAIR,
            target=events(node)[0].writer,
            payload_hash=lost,
            event_at_ms=events(node)[-1].at_ms,
            reason="too_few_copies",
            as_of_ms=now_ms,
        )
    )
    files.publish()


def outcome(actions: Path, node: LocalNode) -> str:
    key = bytes(OPERATOR.address).hex()
    done = restante("fleet", "apply", str(actions), "--file", str(node.directory.path), "--operator-key", key, "--json")
    [row] = json.loads(done.stdout)
    found: str = row["outcome"]
    return found


def journaled(node: LocalNode, blob: PayloadHash) -> list[tuple[JournalKind, str | None]]:
    return [(each.kind, each.code) for each in events(node) if each.payload_hash == blob]


@clause("13.6", "7.9")
async def test_a_node_that_lost_its_copy_fetches_it_after_the_action_was_applied(
    processes: Processes, tmp_path: Path
) -> None:
    """While it runs, without another start; if it does not run, after its next start."""
    inbox, driver = inbox_of_this_hour(), MeshDriver()
    await driver.learn(*[each.place for each in processes.nodes[:3]])
    assert await driver.store(inbox, BODY)
    await driver.close()
    blob, loser, actions = hash_sealed_bytes(BODY), processes.nodes[-1], tmp_path / "actions"
    until(lambda: all(processes.stats(each)["copies"] == 1 for each in processes.nodes))
    lost_and_fetched = [
        (JournalKind.REAPED, None),
        (JournalKind.RETRANSMIT_REQUESTED, "fleet"),
        (JournalKind.STORED, "repaired"),
    ]
    reap_too_early(loser)
    propose(actions, loser, blob)
    assert outcome(actions, loser) == "done"
    until(partial(processes.is_repaired, loser, 1))
    assert journaled(loser, blob) == [(JournalKind.STORED, None), *lost_and_fetched]
    assert outcome(actions, loser) == "already done"
    kill(loser)
    reap_too_early(loser)
    propose(actions, loser, blob)
    assert outcome(actions, loser) == "done"
    assert outcome(actions, loser) == "already done"
    processes.start(loser)
    until(partial(processes.is_repaired, loser, 1))
    assert journaled(loser, blob) == [(JournalKind.STORED, None), *lost_and_fetched, *lost_and_fetched]
