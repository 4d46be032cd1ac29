"""The outbox's relay route over real links: what drains is at the relay, also when the relay was away meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from restante.client.outbox import Destination, Message, Outbox
from restante.client.relay_carrier import Connect, RelayCarrier
from restante.model.journal import JournalKind
from restante.model.states import Route
from restante.policy.retry import RetrySchedule
from restante.runtime.system import SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from support.relay.raw_peer import BOB, LOOPBACK, NODE, SOON_S, RunningRelay, running_relay
from support.spec.clauses import clause
from support.sqlite.files import facts, open_client_file

LANE = "relay-1"
HASTY = RetrySchedule(base_ms=100)


def carrier_to(port: Callable[[], int]) -> RelayCarrier:
    def connect() -> Connect:
        return lambda: TlsRelayConnection.connect(LOOPBACK, port(), node=NODE.node_key)

    return RelayCarrier({LANE: connect()}, schedule=HASTY, entropy=SystemEntropy())


async def queue(outbox: Outbox, relay: RunningRelay, numbers: range) -> list[bytes]:
    envelopes = [relay.envelope(b"%d" % number) for number in numbers]
    for envelope in envelopes:
        await outbox.send(Message(payload=envelope), Destination(Route.RELAY, LANE))
    return envelopes


@clause("3.4", "6.1")
async def test_a_drain_puts_everything_at_the_relay_in_order(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, carrier_to(lambda: relay.port) as carrier:
        outbox = Outbox.open(tmp_path / "client.db", clock=relay.clock)
        sent = await queue(outbox, relay, range(50))
        async with asyncio.timeout(SOON_S):
            await carrier.connected(LANE)
            drained = await outbox.drain({Route.RELAY: carrier})
        assert (drained.sent, drained.failed) == (50, 0)
        assert relay.held() == sent
        reader = await relay.link(BOB)
        assert [(await reader.next_blob()).envelope for _ in sent] == sent
        await reader.close()
        await outbox.close()


async def test_a_relay_that_comes_back_is_found_again(tmp_path: Path) -> None:
    port = 0
    async with carrier_to(lambda: port) as carrier:
        assert not carrier.is_up()
        for round_number in range(2):
            async with running_relay(tmp_path) as relay:
                port = relay.port
                outbox = Outbox.open(tmp_path / f"client-{round_number}.db", clock=relay.clock)
                await queue(outbox, relay, range(3))
                async with asyncio.timeout(SOON_S):
                    await carrier.connected(LANE)
                    assert carrier.is_connected(LANE)
                    assert (await outbox.drain({Route.RELAY: carrier})).sent == 3
                await outbox.close()
            async with asyncio.timeout(SOON_S):
                while carrier.is_up():  # noqa: ASYNC110 - a turn of the loop, not a wait
                    await asyncio.sleep(0)


async def test_what_no_relay_would_take_is_a_dead_letter_at_once(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, carrier_to(lambda: relay.port) as carrier:
        outbox = Outbox.open(tmp_path / "client.db", clock=relay.clock)
        lane = Destination(Route.RELAY, LANE)
        await outbox.send(Message(payload=b"no envelope"), lane)
        await outbox.send(Message(payload=relay.envelope(b"brief", hours=0)), lane)
        async with asyncio.timeout(SOON_S):
            await carrier.connected(LANE)
            drained = await outbox.drain({Route.RELAY: carrier})
        assert (drained.sent, drained.failed) == (0, 2)
        await outbox.close()
    file = open_client_file(tmp_path / "client.db")
    assert [fact.code for fact in facts(file.journal) if fact.kind is JournalKind.DEAD_LETTERED] == ["E101", "E102"]
    file.database.close()
