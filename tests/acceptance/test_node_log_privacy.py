"""A busy node says how much it does, and never for whom (SPEC 6.9, docs/safe-logging.md)."""

import asyncio
import base64
import contextlib
import json
from pathlib import Path

import pytest

from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.identity import Identity
from restante.model.ids import NodeKey
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.system import SystemClock
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.address import show_address
from restante.wire.envelope import Envelope, encode_envelope, hash_sealed_bytes
from support.relay.node_processes import NodeHome, NodeProcess, running_node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

HOUR_MS = 3_600_000
LOOPBACK = "127.0.0.1"
READERS = [Identity(bytes([number]) * 32) for number in range(1, 6)]
STRANGER = Identity(b"x" * 32)
SEALED = [bytes([reader, number]) * 50 for reader in range(5) for number in range(20)]


def envelope(reader: Identity, sealed: bytes, node: NodeKey, *, hours: int = 48) -> bytes:
    expires_at_ms = (SystemClock().now_ms() // HOUR_MS + hours) * HOUR_MS
    inbox = relay_inbox_key(reader.address, node)
    return encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=expires_at_ms, sealed=sealed))


async def keep_busy(node: NodeProcess) -> None:
    """Puts, refusals, receiving, deleting, noise, and links that end in the middle."""
    place = node.relay

    async def link() -> TlsRelayConnection:
        return await TlsRelayConnection.connect(place.host, place.port, node=place.node_key)

    sender = await link()
    for number, sealed in enumerate(SEALED):
        await sender.put(envelope(READERS[number // 20], sealed, place.node_key))
    for refused in (envelope(READERS[0], b"late", place.node_key, hours=0), b"\xff" * 100):
        with contextlib.suppress(AttemptFailed, ValueError):
            await sender.put(refused)
    for reader in READERS[:3]:
        receiver = await link()
        await receiver.subscribe(OwnInbox(reader))
        async with asyncio.timeout(LIMIT_S):
            for _ in range(20):
                blob = await receiver.next_blob()
                await receiver.delete(blob.blob_id)
        await receiver.close()
    stranger = await link()
    await stranger.subscribe(OwnInbox(STRANGER))
    with contextlib.suppress(AttemptFailed):
        await stranger.delete(1)
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\xff" + bytes(300), bytes(70_000)):
        _, writer = await asyncio.open_connection(place.host, place.port)
        with contextlib.suppress(ConnectionError):
            writer.write(noise)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
    for one in (sender, stranger):
        await one.close()


def everything_that_names_somebody(home: NodeHome) -> dict[str, bytes]:
    named: dict[str, bytes] = {}
    for number, identity in enumerate([*READERS, STRANGER]):
        named[f"address {number}"] = identity.address
        named[f"inbox {number}"] = relay_inbox_key(identity.address, home.relay.node_key)
    named |= {f"hash {number}": hash_sealed_bytes(sealed) for number, sealed in enumerate(SEALED)}
    return named | {"node key": home.relay.node_key}


def spellings(raw: bytes) -> list[str]:
    """As a careless line might show it, whole or cut short."""
    return [
        raw.hex()[:12],
        raw.hex().upper()[:12],
        base64.b64encode(raw).decode()[:12],
        base64.urlsafe_b64encode(raw).decode()[:12],
        repr(raw)[2:14],
        str(int.from_bytes(raw, "big"))[:12],
        str(list(raw[:6]))[1:-1],
    ]


@clause("6.9")
@pytest.mark.parametrize("form", ["json", "text"])
async def test_nothing_a_busy_node_says_names_anybody(tmp_path: Path, form: str) -> None:
    home = NodeHome.made(tmp_path / "node")
    home.set("node", log_format=form)
    with running_node(home) as node:
        async with asyncio.timeout(LIMIT_S):
            await keep_busy(node)
        answers = [await asyncio.to_thread(node.get, path) for path in ("/healthz", "/metrics", "/status")]
        assert [status for status, _ in answers] == [200, 200, 200]
        assert json.loads(answers[2][1])["relay"]["puts_stored_total"] == 100
        assert await asyncio.to_thread(node.terminate) == 0
        said = b"".join([*node.log, *(body for _, body in answers)]).decode()
    assert "node.listening" in said
    assert "restante_relay_puts_stored_total 100.0" in said
    for name, raw in everything_that_names_somebody(home).items():
        assert [spelling for spelling in spellings(raw) if spelling in said] == [], name
    for identity in [*READERS, STRANGER]:
        assert show_address(identity.address)[:12] not in said
    assert LOOPBACK not in said
    assert str(tmp_path) not in said
    assert "Traceback" not in said
