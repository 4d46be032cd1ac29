"""Two applications and a relay, written as a user of the library would: asyncio, and blocking code."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from restante import Client, ClientDirectory, Node, RelayPlace, RestanteError, State, sync
from restante.model.ids import MessageId
from restante.runtime.system import SystemEntropy
from support.spec.clauses import clause

LIMIT_S = 60.0


async def introduced(home: Path, place: RelayPlace) -> None:
    clients = {}
    for name in ("alice", "bob"):
        ClientDirectory(home / name).create(place, SystemEntropy())
        clients[name] = Client.open(home / name)
    for name, other in (("alice", "bob"), ("bob", "alice")):
        clients[name].contacts.add(replace(await clients[other].as_contact(), name=other))
    for client in clients.values():
        await client.close()


@clause("1.1", "9.8")
async def test_a_message_is_sent_delivered_and_read_by_name(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), Node.open(tmp_path / "relay", listen="127.0.0.1:0") as node:
        await introduced(tmp_path, node.place)
        async with (
            Client.open(tmp_path / "alice", receive_delay_s=0) as alice,
            Client.open(tmp_path / "bob", receive_delay_s=0) as bob,
        ):
            sent = await alice.send("bob", "bonjour")
            message = await anext(bob.inbox())
            assert (message.sender_name, message.text) == ("alice", "bonjour")
            assert (await sent.delivered(timeout=LIMIT_S)).state is State.DELIVERED


async def test_blocking_code_has_the_same_client(tmp_path: Path) -> None:
    def talk() -> list[str]:
        with sync.Client.open(tmp_path / "alice") as alice, sync.Client.open(tmp_path / "bob") as bob:

            def bodies() -> Iterator[str]:
                yield "one"
                assert alice.status(MessageId(bytes(16))) is None, "the client works while it waits for its source"
                yield "two"

            sent = alice.send_many("bob", bodies())
            assert str(sent[0]).startswith("SentMessage(")
            with pytest.raises(RestanteError) as refused:
                alice.send_many("bob", ["three"] * 64 + ["x" * 300_000])
            assert refused.value.accepted == 64
            read = []
            for message in bob.inbox(explicit_acks=True):
                read.append(message.text)
                message.ack()
                if len(read) == 2:
                    break
            assert all(one.delivered(timeout=LIMIT_S).state is State.DELIVERED for one in sent)
            assert alice.status(sent[0].message_id) is not None
            return read

    async with asyncio.timeout(LIMIT_S), Node.open(tmp_path / "relay", listen="127.0.0.1:0") as node:
        await introduced(tmp_path, node.place)
        assert await asyncio.to_thread(talk) == ["one", "two"]


async def test_a_node_opened_again_has_the_same_key(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        async with Node.open(tmp_path / "relay", listen="127.0.0.1:0") as node:
            keys.append(node.place.node_key)
    assert keys[0] == keys[1]
