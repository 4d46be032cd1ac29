"""What a node does when it is stopped in the middle, when its disk is full, and when its file is taken away."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from restante.model.error_codes import Code
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.relay_connection import TlsRelayConnection
from support.relay.node_processes import NodeHome, NodeProcess, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    return NodeHome.made(tmp_path / "node")


def held(home: NodeHome) -> list[bytes]:
    connection = apsw.Connection(str(home.database))
    try:
        return [raw for (raw,) in connection.execute("SELECT envelope FROM blob ORDER BY id")]
    finally:
        connection.close()


@asynccontextmanager
async def linked(node: NodeProcess) -> AsyncIterator[TlsRelayConnection]:
    place = node.relay
    link = await TlsRelayConnection.connect(place.host, place.port, node=place.node_key)
    try:
        yield link
    finally:
        await link.close()


@clause("1.3", "6.1")
async def test_sigterm_finishes_and_answers_the_puts_under_way_and_ends_with_zero(home: NodeHome) -> None:
    # Made before: to make them takes long enough for an answer to come too late.
    envelopes = home.envelopes(*(b"%d " % number * 2_000 for number in range(3_000)))
    with running_node(home) as node:
        async with linked(node) as link:
            acknowledged: list[bytes] = []

            async def put(raw: bytes) -> None:
                await link.put(raw)
                acknowledged.append(raw)
                if len(acknowledged) == 20:
                    node.process.terminate()

            answers = await asyncio.gather(*map(put, envelopes), return_exceptions=True)
        assert await asyncio.to_thread(node.ended) == 0
        stopped = node.logged()[-1]
    assert (stopped["event"], stopped["clean"], stopped["pending"]) == ("node.stopped", True, 0)
    assert {type(answer) for answer in answers if not isinstance(answer, AttemptFailed)} <= {type(None)}
    assert len(acknowledged) >= 20
    assert held(home) == acknowledged  # all that was answered is there, and all that is there was answered
    assert stopped["puts"] == len(acknowledged)


async def test_a_connection_that_says_nothing_does_not_keep_a_node_from_stopping(home: NodeHome) -> None:
    home.set("relay", handshake_timeout_ms=60_000)  # that is how long the silent one may stay
    with running_node(home) as node:
        _, writer = await asyncio.open_connection(node.relay.host, node.relay.port)
        async with asyncio.timeout(LIMIT_S / 2), linked(node):
            node.process.terminate()
            assert await asyncio.to_thread(node.ended) == 0
        writer.close()
    assert node.events()[-2:] == ["node.stopping", "node.stopped"]


def no_file_longer_than(node: NodeProcess, size_bytes: int) -> None:
    """As on a disk with no room left: a write that would make one of the node's files longer fails."""
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


async def health(node: NodeProcess, *, until: int) -> dict[str, object]:
    """What health says once it answers with `until`; it looks anew once a second."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            status, body = await asyncio.to_thread(node.get, "/healthz")
            if status == until:
                told: dict[str, object] = json.loads(body)
                return told


@clause("6.7", "6.9", "1.3")
async def test_a_full_disk_is_a_temporary_refusal_and_a_503_until_there_is_room(home: NodeHome) -> None:
    large = home.envelopes(*(bytes([number]) * 200_000 for number in range(4)))
    with running_node(home) as node:
        async with linked(node) as link:
            await link.put(large[0])
            assert (await health(node, until=200))["usable"] is True
            no_file_longer_than(node, home.database.with_name("node.db-wal").stat().st_size)
            for raw in large[1:3]:
                with pytest.raises(AttemptFailed) as caught:
                    await link.put(raw)
                assert caught.value.code is Code.STORAGE_FAILED
                assert caught.value.failure is Failure.STORAGE_REFUSED
            assert (await health(node, until=503))["reason"] == "cannot_write"
            no_file_longer_than(node, resource.RLIM_INFINITY)
            assert (await health(node, until=200))["usable"] is True
            await link.put(large[3])
        assert node.process.poll() is None
        assert await asyncio.to_thread(node.terminate) == 0
    events = node.events()
    assert events.count("store.failed") == events.count("store.recovered") == 1
    assert held(home) == [large[0], large[3]]


@clause("6.9", "1.3")
async def test_a_node_whose_file_was_taken_away_acknowledges_nothing_more_and_says_so(home: NodeHome) -> None:
    before, after = home.envelopes(b"before", b"after")
    with running_node(home) as node:
        async with linked(node) as link:
            await link.put(before)
            assert (await health(node, until=200))["usable"] is True
            home.database.rename(home.database.with_name("moved.db"))
            told = await health(node, until=503)
            assert (told["reason"], told["code"]) == ("file_gone", "E106")
            with pytest.raises(AttemptFailed) as caught:
                await link.put(after)
            assert caught.value.code is Code.STORAGE_FAILED
        assert (await asyncio.to_thread(node.get, "/metrics"))[0] == 200
        async with asyncio.timeout(LIMIT_S):
            while "store.failed" not in node.events():  # the node looks by itself, too, if nobody asks
                await health(node, until=503)
        assert await asyncio.to_thread(node.terminate) == 0
    [failed] = [line for line in node.logged() if line["event"] == "store.failed"]
    assert failed["code"] == "E106"
    assert not home.database.exists()
