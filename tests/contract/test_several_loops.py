"""One client or file in several event loops in turn: scripts and notebooks call `asyncio.run` each time."""

import asyncio
from pathlib import Path

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.model.ids import NodeKey
from restante.model.places import RelayPlace
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.group_commit import GroupCommit
from restante.runtime.system import SystemEntropy
from support.inbox.decrypted_messages import letter
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S


def test_what_an_ended_loop_left_for_the_next_commit_does_not_disturb_the_next_loop(tmp_path: Path) -> None:
    database = Database(tmp_path / "client.db", schema="client")
    group = GroupCommit(database)

    async def leave() -> None:
        group.run_later(lambda: None).add_done_callback(lambda _: None)

    async def go_on() -> list[int]:
        async with asyncio.timeout(LIMIT_S):
            return [await group.run(lambda: 1), await group.run_later(lambda: 2)]

    asyncio.run(leave())
    assert asyncio.run(go_on()) == [1, 2]
    group.close()
    database.close()


@clause("9.8")
def test_a_client_that_read_in_one_loop_may_be_closed_in_another_and_acks_what_it_showed(tmp_path: Path) -> None:
    home = ClientDirectory(tmp_path / "alice")
    home.create(RelayPlace(node_key=NodeKey(bytes(32)), host="relay.example", port=1), SystemEntropy())

    async def read(client: Client) -> list[str]:
        return [message.text async for message in client.inbox(follow=False)]

    async def close(client: Client) -> None:
        async with asyncio.timeout(LIMIT_S):
            await client.close()

    first = Client.open(home.path)
    now_ms = first.now_ms()
    first.received.receive(letter(0, written_at_ms=now_ms), server_timestamp_ms=now_ms, now_ms=now_ms)
    assert asyncio.run(read(first)) == ["body 0"]
    asyncio.run(close(first))
    again = Client.open(home.path)
    assert asyncio.run(read(again)) == []
    asyncio.run(close(again))
