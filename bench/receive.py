"""What a message costs its reader from the envelope to the disk: unseal, recognise, decrypt, order, store, durable.

1 KiB messages of one session, sealed by a real writer, in batches of 128. The breakdown is CPU time of this process,
so that other work on the machine disturbs it less; the seal is ML-KEM-768 + X25519 and most of it.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from restante.client.client import BATCH, Client
from restante.client.contacts import CONTROL_LANE
from restante.client.home import ClientDirectory
from restante.core.relay_envelope import build_relay_envelope
from restante.core.session_messages import unseal_envelopes
from restante.model.ids import node_key
from restante.model.outbox_entry import OutboxEntry
from restante.model.places import RelayPlace
from restante.model.states import Route
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import StoredBlob
from restante.runtime.system import SystemClock, SystemEntropy
from restante.wire.address import parse_address

MESSAGES = 1_024
ROUNDS = 7
BAR = 4_000
SETTINGS = Settings()
RELAY = RelayPlace(node_key=node_key(b"n" * 32), host="127.0.0.1", port=7431)


class Pile:
    """A carrier that keeps what it is given."""

    def __init__(self) -> None:
        self.envelopes: list[bytes] = []

    def is_up(self) -> bool:
        return True

    def is_connected(self, lane: str) -> bool:
        return bool(lane)

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        envelope = build_relay_envelope(
            entry.payload,
            recipient=parse_address(entry.lane.removeprefix(CONTROL_LANE)),
            relay=RELAY.node_key,
            kind=entry.kind,
            expires_at_ms=entry.expires_at_ms,
            now_ms=SystemClock().now_ms(),
        )
        self.envelopes.append(envelope)
        return ()


async def written(home: Path) -> tuple[Client, list[StoredBlob]]:
    """A reader, and the mail that somebody wrote for it."""
    clients = []
    for name in ("writer", "reader"):
        ClientDirectory(home / name).create(RELAY, SystemEntropy())
        clients.append(Client.open(home / name, settings=SETTINGS))
    writer, reader = clients
    writer.contacts.add(replace(await reader.as_contact(), name="reader"))
    reader.contacts.add(replace(await writer.as_contact(), name="writer"))
    pile = Pile()
    to = reader.identity.address
    await writer.send(to, b"first")
    await writer.outbox.drain({Route.RELAY: pile})
    await reader.receive([StoredBlob(0, 0, pile.envelopes.pop())])
    await reader.send(writer.identity.address, b"answer")  # from here on no message carries the opening
    await reader.outbox.drain({Route.RELAY: pile})
    await writer.receive([StoredBlob(0, 0, pile.envelopes.pop())])
    for start in range(0, MESSAGES, BATCH):
        sends = (writer.send(to, os.urandom(1_024)) for _ in range(start, min(start + BATCH, MESSAGES)))
        await asyncio.gather(*sends)
        await writer.outbox.drain({Route.RELAY: pile})  # a message is encrypted when it is first leased
    await writer.close()
    now_ms = SystemClock().now_ms()
    return reader, [StoredBlob(number, now_ms, envelope) for number, envelope in enumerate(pile.envelopes, start=1)]


def cpu_us(work: Callable[[], object], count: int) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) / count * 1e6


async def one_round() -> tuple[float, float, float]:
    """Messages a second by the clock; CPU µs for all, and for unsealing alone."""
    with tempfile.TemporaryDirectory() as directory:
        reader, blobs = await written(Path(directory))
        envelopes = [blob.envelope for blob in blobs]
        groups = [envelopes[start : start + BATCH] for start in range(0, len(envelopes), BATCH)]
        sealed_us = cpu_us(lambda: [unseal_envelopes(group, recipient=reader.identity) for group in groups], len(blobs))
        start, cpu = time.perf_counter(), time.process_time()
        await reader.receive(blobs)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        now_ms = SystemClock().now_ms()
        assert len(reader.received.released(after=0, limit=100_000, now_ms=now_ms)) == MESSAGES + 1
        await reader.close()
    return len(blobs) / seconds, cpu / len(blobs) * 1e6, sealed_us


def main() -> None:
    rounds = [asyncio.run(one_round()) for _ in range(ROUNDS)]
    rates, whole, sealed = zip(*rounds, strict=True)
    print(f"The whole inbound path, {MESSAGES:,} messages of 1 KiB in batches of {BATCH}, durable")
    print(f"  by the clock                  {median(rates):>10,.0f} msg/s (best round {max(rates):,.0f})")
    print(f"  CPU of one core               {1e6 / median(whole):>10,.0f} msg/s; the bar is {BAR:,}")
    print(f"    unseal (HPKE), unpad, parse {median(sealed):>10.1f} µs")
    print("    recognise, decrypt, order,")
    print(f"    store, owe a receipt, facts {median(whole) - median(sealed):>10.1f} µs")
    print(f"    all                         {median(whole):>10.1f} µs")


if __name__ == "__main__":
    main()
