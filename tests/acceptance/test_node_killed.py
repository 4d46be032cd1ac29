"""20,000 puts over 50 connections to a node that is killed again and again: an Ack means "on disk" (SPEC 1.3)."""

import asyncio
import itertools
import random
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope
from support.relay.node_processes import NodeHome, NodeProcess, start_node
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

CONNECTIONS = 50
IN_FLIGHT = 16
HOUR_MS = 3_600_000
MARK = struct.Struct(">HHI")  # who, on its how-manieth link, which put

Mark = tuple[int, int, int]


@dataclass
class Story:
    """What the senders were told."""

    home: NodeHome
    node: NodeProcess
    kill_after: list[int]
    expires_at_ms: int
    up: asyncio.Event = field(default_factory=asyncio.Event)
    sent: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: list[Mark] = field(default_factory=list)
    restarting: asyncio.Task[None] | None = None

    def note(self, mark: Mark) -> None:
        self.acknowledged.append(mark)
        if self.kill_after and len(self.acknowledged) >= self.kill_after[0] and self.up.is_set():
            self.kill_after.pop(0)
            self.up.clear()
            self.node.process.kill()
            self.restarting = asyncio.create_task(self.restart())

    async def restart(self) -> None:
        await asyncio.to_thread(self.node.ended)
        self.node = await asyncio.to_thread(start_node, self.home)
        self.up.set()


def inbox(who: int, home: NodeHome) -> InboxKey:
    return relay_inbox_key(Identity(who.to_bytes(32, "big")).address, home.relay.node_key)


async def send_all(story: Story, who: int, puts: int) -> None:
    """Every put, over as many links as it takes: what was not acknowledged on one is put again on the next."""
    waiting = list(range(puts))
    inbox_key = inbox(who, story.home)
    for link_number in itertools.count():
        if not waiting:
            return
        await story.up.wait()
        place = story.home.relay
        try:
            link = await TlsRelayConnection.connect(place.host, place.port, node=place.node_key)
        except AttemptFailed:
            await asyncio.sleep(0)  # killed meanwhile: wait for the next
            continue
        done: set[int] = set()

        async def put(number: int, link: TlsRelayConnection = link, number_of_link: int = link_number) -> int:
            mark = (who, number_of_link, number)
            story.sent[who, number_of_link].append(number)
            sealed = MARK.pack(*mark) + bytes(1_000)
            envelope = Envelope(inbox_key=inbox_key, expires_at_ms=story.expires_at_ms, sealed=sealed)
            await link.put(encode_envelope(envelope))
            story.note(mark)
            return number

        for start in range(0, len(waiting), IN_FLIGHT):
            answers = await asyncio.gather(*map(put, waiting[start : start + IN_FLIGHT]), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, int):
                    done.add(answer)
                elif not isinstance(answer, AttemptFailed):
                    raise answer
            if len(done) < start + len(answers):
                break
        await link.close()
        waiting = [number for number in waiting if number not in done]


def on_disk(home: NodeHome) -> tuple[list[Mark], int]:
    """What is held, in the order it was stored, and how many facts say that something was stored."""
    connection = apsw.Connection(str(home.database))
    try:
        assert connection.pragma("integrity_check") == "ok"
        rows: list[Any] = connection.execute("SELECT recipient, envelope FROM blob ORDER BY id").fetchall()
        [(facts,)] = connection.execute("SELECT count(*) FROM journal WHERE kind = 'stored'")
    finally:
        connection.close()
    marks: list[Mark] = [MARK.unpack_from(decode_envelope(raw).sealed) for _, raw in rows]
    assert all(recipient == inbox(who, home) for (recipient, _), (who, _, _) in zip(rows, marks, strict=True))
    return marks, facts


@clause("1.3", "6.1", "6.2")
@pytest.mark.parametrize(("kills", "puts_each"), first_now_rest_in_soak([(3, 100), (8, 400), (30, 2_000)]))
async def test_every_acknowledged_put_survives_a_node_killed_again_and_again(
    tmp_path: Path, kills: int, puts_each: int
) -> None:
    moments = random.Random(20_261_115)  # noqa: S311 - where the kills fall, not a secret
    home = NodeHome.made(tmp_path / "node")
    story = Story(
        home=home,
        node=await asyncio.to_thread(start_node, home),
        kill_after=sorted(moments.sample(range(1, CONNECTIONS * puts_each - 1_000), kills)),
        expires_at_ms=(SystemClock().now_ms() // HOUR_MS + 48) * HOUR_MS,
    )
    story.up.set()
    try:
        async with asyncio.timeout(900):
            await asyncio.gather(*(send_all(story, who, puts_each) for who in range(CONNECTIONS)))
    finally:
        if story.restarting is not None:
            await story.restarting
        story.node.kill()
    held, facts = on_disk(home)
    assert story.kill_after == []
    wanted = {(who, number) for who in range(CONNECTIONS) for number in range(puts_each)}
    assert {(who, number) for who, _, number in story.acknowledged} == wanted
    assert len(set(held)) == len(held) == facts
    assert set(story.acknowledged) <= set(held)  # none that was promised is lost
    stored_by_link: dict[tuple[int, int], list[int]] = defaultdict(list)
    for who, link, number in held:
        stored_by_link[who, link].append(number)
    for by_link, stored in stored_by_link.items():
        assert stored == story.sent[by_link][: len(stored)]  # in order, without a hole, and nothing nobody sent
