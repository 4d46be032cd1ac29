"""alice and bob in the mesh: three hops, an absence with a killed and a lying node, a restored backup."""

import asyncio
import shutil
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from restante.cli.demo.chapters import Chapter, Stage, as_sent, percentiles, shown_latency
from restante.cli.demo.people import (
    ARRIVES_S,
    LOOK_S,
    Arrived,
    are_in_order,
    online,
    receive,
    send_numbered,
    settle,
    until,
)
from restante.client.client import Client
from restante.core.mesh_proofs.journal_evidence import withheld_blobs
from restante.model.ids import NodeId, PayloadHash, SessionId
from restante.model.journal import JournalEvent, JournalKind
from restante.model.states import State

ALL: Final = 10_000_000
LIVE: Final = range(40)
PAUSE_S: Final = 0.05
AWAY: Final = range(40, 60)
SINCE_BACKUP: Final = range(60, 65)
AFTER_RESTORE: Final = range(65, 68)
ANSWERS: Final = range(5)
SHORT: Final = 16
HOPS: Final = 3


async def three_hops(stage: Stage, alice: Client) -> Chapter:
    stage.on_progress("alice writes to bob through circuits")
    async with online(stage.people["bob"]) as [bob]:
        sending = asyncio.create_task(send_numbered(alice, "bob", LIVE, pause_s=PAUSE_S))
        arrived = await receive(bob, len(LIVE))
        await sending
        status = None if alice.running_mesh is None else alice.running_mesh.circuit_status()
        circuits = () if status is None else status.circuits
        hops = next((each.hops for each in circuits if each.use == "stores"), ())
        await settle(alice, bob)
    latencies = [each.latency_ms for each in arrived]
    is_good = are_in_order(arrived, LIVE) and len(hops) == HOPS
    return Chapter(
        title="Three hops",
        lines=(
            f"alice sent bob {len(LIVE)} messages through the nodes {' → '.join(hops)}.",
            f"{len(arrived)} arrived, {as_sent(is_good=is_good)}:",
            f"{shown_latency(latencies)}.",
        ),
        is_good=is_good,
        figures={"sent": len(LIVE), "received": len(arrived), "hops": list(hops), "latency_ms": percentiles(latencies)},
    )


@dataclass(frozen=True, slots=True)
class Absence:
    """When bob left, and which of the nodes that signed for his mail was killed and will lie."""

    since_s: float
    killed: NodeId
    liar: NodeId


async def bob_leaves(stage: Stage, alice: Client) -> tuple[Chapter, Absence]:
    """alice writes while bob is away; then one of the nodes that signed for the mail is killed."""
    stage.on_progress("bob is away, alice writes to him")
    left_s = time.monotonic()
    before = len(await _journal(alice))
    await send_numbered(alice, "bob", AWAY)
    signed = await _until_stored(alice, since=before)
    network = stage.network
    # The relay is spared: it is killed in a chapter of its own.
    holders = [node for node in signed if network.node(node) is not network.relay]
    killed, liar = sorted(holders, key=lambda node: -signed[node])[:2]
    network.kill(network.node(killed))
    chapter = Chapter(
        title="An absence",
        lines=(
            f"bob went offline. alice sent him {len(AWAY)} messages, and {len(signed)} nodes signed for them.",
            f"Then one of these nodes, at {network.node(killed).place.host}, was killed with SIGKILL.",
        ),
        is_good=len(signed) >= HOPS,
        figures={"sent": len(AWAY), "nodes_that_signed": len(signed)},
    )
    return chapter, Absence(left_s, killed, liar)


async def bob_returns(stage: Stage, alice: Client, absence: Absence) -> list[Chapter]:
    """bob reads past the killed node and a lying one, and the liar is named."""
    stage.on_progress("bob comes back")
    network, liar = stage.network, absence.liar
    away_s = time.monotonic() - absence.since_s
    with network.hiding(network.node(liar)):
        async with online(stage.people["bob"]) as [bob]:
            began_s = time.monotonic()
            arrived = await receive(bob, len(AWAY))
            took_s = time.monotonic() - began_s
            proved = await _until_proved(alice, bob, liar)
            await settle(alice, bob)
    network.start(network.node(absence.killed))
    is_good = are_in_order(arrived, AWAY)
    blobs = proved.get(liar, set())
    is_named = bool(blobs) and proved.keys() == {liar}
    return [
        Chapter(
            title="The return",
            lines=(
                f"bob came back after {away_s:,.0f} s and had his mail within {took_s:,.1f} s.",
                f"{len(arrived)} messages arrived, {as_sent(is_good=is_good)}.",
            ),
            is_good=is_good,
            figures={"away_ms": round(away_s * 1_000), "took_ms": round(took_s * 1_000), "received": len(arrived)},
        ),
        Chapter(
            title="A lying node",
            lines=(
                f"Another node that had signed, at {network.node(liar).place.host}, hid the mail from bob.",
                f"Node {liar.hex()[:SHORT]} is {'named' if is_named else 'NOT named'} by its own signatures:",
                f"{len(blobs)} storage receipts, and a later list without these messages.",
            ),
            is_good=is_named,
            figures={"liar": liar.hex(), "named": [node.hex() for node in proved], "messages": len(blobs)},
        ),
    ]


async def restored_backup(stage: Stage, alice: Client) -> Chapter:
    """bob's file is replaced by an older copy; the conversation goes on in a new session."""
    stage.on_progress("bob loses his disk")
    bob_lives_at = stage.people["bob"]
    database, backup = bob_lives_at.home.database, stage.home / "bob.backup"
    shutil.copy(database, backup)
    async with online(bob_lives_at) as [bob]:
        await send_numbered(alice, "bob", SINCE_BACKUP)
        await send_numbered(bob, "alice", ANSWERS)
        await asyncio.gather(receive(bob, len(SINCE_BACKUP)), receive(alice, len(ANSWERS)))
        await settle(alice, bob)
        before = await _current_sessions(alice, bob)
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    shutil.copy(backup, database)
    stage.on_progress("bob restores a backup")
    async with online(bob_lives_at) as [bob]:
        began_s = time.monotonic()
        await send_numbered(alice, "bob", AFTER_RESTORE)
        arrived = await receive(bob, len(AFTER_RESTORE))
        await send_numbered(bob, "alice", ANSWERS)
        arrived += await receive(alice, len(ANSWERS))
        after = await _until_common_session(alice, bob)
        healed_s = time.monotonic() - began_s
        await settle(alice, bob)
    # Each session has its own order (SPEC 1.2), and these messages cross from one to the next.
    is_good = sorted(_numbers(arrived)) == sorted([*AFTER_RESTORE, *ANSWERS])
    is_healed = is_good and len(after) == 1 and after != before
    healed = f"{healed_s:,.1f} s after bob was back, both wrote in one new session."
    lost = len(SINCE_BACKUP) + len(ANSWERS)
    return Chapter(
        title="A restored backup",
        lines=(
            f"bob lost his file and put back a copy from before the last {lost} messages.",
            f"alice wrote {len(AFTER_RESTORE)} and bob {len(ANSWERS)}: {len(arrived)} arrived,"
            + (" each once." if is_good else " NOT each once."),
            healed if is_healed else "They did NOT find one new session.",
        ),
        is_good=is_healed,
        figures={"healed_ms": round(healed_s * 1_000), "received": len(arrived)},
    )


def _numbers(arrived: list[Arrived]) -> list[int]:
    return [int(each.text.split()[0]) for each in arrived]


async def _until_stored(client: Client, *, since: int) -> dict[NodeId, int]:
    """Wait until everything is stored; return for how many messages each node signed."""

    async def is_stored() -> bool:
        return not {State.PENDING, State.SENDING} & (await client.outbox.counts()).keys()

    await until(is_stored)
    signed: dict[NodeId, set[bytes | None]] = {}
    for row in (await _journal(client))[since:]:
        if row.kind is JournalKind.DELIVERY_CONFIRMED and row.node is not None:
            signed.setdefault(row.node, set()).add(row.message_id)
    return {node: len(messages) for node, messages in signed.items()}


async def _until_proved(sender: Client, recipient: Client, liar: NodeId) -> dict[NodeId, set[PayloadHash]]:
    """Return what the two journals prove, as soon as it names the liar."""
    found: dict[NodeId, set[PayloadHash]] = {}
    until_s = time.monotonic() + ARRIVES_S
    while liar not in found and time.monotonic() < until_s:
        found = withheld_blobs(await _journal(sender), await _journal(recipient))
        await asyncio.sleep(LOOK_S)
    return found


async def _until_common_session(one: Client, other: Client) -> set[SessionId]:
    async def is_common() -> bool:
        return len(await _current_sessions(one, other)) == 1

    await until(is_common)
    return await _current_sessions(one, other)


async def _current_sessions(*clients: Client) -> set[SessionId]:
    return {each.session_id for client in clients for each in await client.sessions() if each.is_current}


async def _journal(client: Client) -> list[JournalEvent]:
    return await client.file.run(partial(client.journal.events, after=0, limit=ALL))
