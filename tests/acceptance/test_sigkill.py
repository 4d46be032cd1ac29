"""SIGKILL at no particular moment: what was promised before it is there afterwards."""

import asyncio
import contextlib
import itertools
import json
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.identity import Identity
from restante.model.ids import MessageId, NodeKey, event_number
from restante.model.journal import JournalKind
from restante.model.states import State
from restante.policy.capacity import OutboxLimits
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.identity_files import create_identity
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.envelope import Envelope, encode_envelope
from support.client import accepting_process
from support.client.accepting_process import READERS, SENDER
from support.relay import relay_process
from support.spec.clauses import clause
from support.sqlite.files import assert_books_balance, facts, open_client_file, open_node_file, states_by_journal
from support.system.programs import command

LOOPBACK = "127.0.0.1"
HOUR_MS = 3_600_000


def accept_until_killed(home: Path, after: int) -> list[MessageId]:
    """The ids a process said before it was killed, some time after it had said `after` of them."""
    process = subprocess.Popen([*command(accepting_process), str(home)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(after)]
        process.kill()
        said += process.stdout.readlines()
    finally:
        process.kill()
        process.communicate()
    whole = [line for line in said if line.endswith(b"\n")]
    return [MessageId(bytes.fromhex(line.decode())) for line in whole]


@clause("3.2", "3.11", "1.3", "1.4")
def test_every_message_a_killed_client_accepted_is_there_and_the_books_balance(tmp_path: Path) -> None:
    moments = random.Random(20_260_101)  # noqa: S311 - where the kill falls, not a secret
    said: list[MessageId] = []
    for kills in range(1, 5):
        said += accept_until_killed(tmp_path, moments.randint(1, 60))
        file = open_client_file(tmp_path / "client.db", owner=SENDER)
        told = states_by_journal(file.journal)
        assert set(said) <= told.keys()
        assert len(told) <= len(said) + kills  # a kill may fall between acceptance and its telling, once each
        assert_books_balance(file)
        assert [event_number(fact.event_id) for fact in facts(file.journal)] == list(
            range(1, len(facts(file.journal)) + 1)
        )
        first_leases = [event for event in facts(file.journal) if event.sequence is not None]
        assert {event.kind for event in first_leases} == {JournalKind.ATTEMPTED}
        for tag in {event.session_tag for event in first_leases}:
            numbers = [event.sequence for event in first_leases if event.session_tag == tag]
            assert numbers == list(range(len(numbers)))
        assert file.database.run("PRAGMA integrity_check") == [("ok",)]
        file.database.close()
    assert len(said) == len(set(said)) >= 4


@clause("3.5", "3.11")
def test_a_killed_client_leaves_no_entry_claimed_beyond_its_lease(tmp_path: Path) -> None:
    accept_until_killed(tmp_path, 30)
    file = open_client_file(tmp_path / "client.db", owner=SENDER)
    before = file.outbox.counts()
    assert before[State.SENDING] > 0
    file.outbox.sweep(now_ms=SystemClock().now_ms() + OutboxLimits().lease_ms)
    after = file.outbox.counts()
    assert State.SENDING not in after
    assert after[State.PENDING] == before[State.PENDING] + before[State.SENDING]
    assert_books_balance(file)
    file.database.close()


def envelope(number: int, node: NodeKey) -> bytes:
    in_two_days = (SystemClock().now_ms() // HOUR_MS + 48) * HOUR_MS
    return encode_envelope(
        Envelope(
            inbox_key=relay_inbox_key(READERS[0].address, node),
            expires_at_ms=in_two_days,
            sealed=b"sealed %d" % number * 100,
        )
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "relay"


@pytest.fixture
def node(home: Path) -> Identity:
    return create_identity(home / "identity", SystemEntropy())


@contextlib.asynccontextmanager
async def running_relay(home: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A relay in a process, with its port."""
    process = await asyncio.create_subprocess_exec(
        *command(relay_process),
        str(home),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(await asyncio.wait_for(process.stdout.readline(), 30))["port"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def put_until_killed(process: asyncio.subprocess.Process, port: int, node: NodeKey, *, after: int) -> set[bytes]:
    """Fifty puts at any time over one link, the relay killed once `after` are acknowledged: all that were."""
    link = await TlsRelayConnection.connect(LOOPBACK, port, node=node)
    acknowledged: set[bytes] = set()
    numbers = itertools.count()

    async def put_on_and_on() -> None:
        with contextlib.suppress(AttemptFailed):
            while True:
                raw = envelope(next(numbers), node)
                await link.put(raw)
                acknowledged.add(raw)
                if len(acknowledged) == after:
                    process.kill()

    await asyncio.wait_for(asyncio.gather(*(put_on_and_on() for _ in range(50))), 30)
    await link.close()
    return acknowledged


@clause("1.3", "6.1")
@pytest.mark.parametrize("after", [1, 40])
async def test_every_envelope_a_killed_relay_acknowledged_is_there_and_is_served_by_the_next(
    home: Path, node: Identity, after: int
) -> None:
    async with running_relay(home) as (process, port):
        acknowledged = await put_until_killed(process, port, node.node_key, after=after)
        assert await asyncio.wait_for(process.wait(), 30) == -9
    assert len(acknowledged) >= after
    file = open_node_file(home / "node.db")
    held = {raw for (raw,) in file.database.run("SELECT envelope FROM blob")}
    assert acknowledged <= held
    stored = [fact.payload_hash for fact in facts(file.journal) if fact.kind is JournalKind.STORED]
    hashes = [hashed for (hashed,) in file.database.run("SELECT payload_hash FROM blob ORDER BY id")]
    assert stored == hashes
    assert len(held) == len(hashes)
    file.database.close()
    async with running_relay(home) as (_, port):
        link = await TlsRelayConnection.connect(LOOPBACK, port, node=node.node_key)
        await link.subscribe(OwnInbox(READERS[0]))
        served = set()
        for _ in range(len(held)):
            blob = await asyncio.wait_for(link.next_blob(), 30)
            served.add(blob.envelope)
            await link.delete(blob.blob_id)
        assert served == held
        await link.close()
