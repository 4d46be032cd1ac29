"""Links by key: who is not the node, or speaks something older or nothing encrypted, gets nowhere (SPEC 6.5)."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restante.core.inboxes.relay_inbox import OwnInbox
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.runtime.transport.tls import channel_of, client_context, server_context
from restante.wire.frames import codec
from support.relay.raw_peer import BOB, LOOPBACK, MALLORY, NODE, SOON_S, RawPeer, RunningRelay, running_relay
from support.spec.clauses import clause
from support.wire.frame_reader import FrameReader


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[RunningRelay]:
    async with running_relay(tmp_path) as running:
        yield running


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext | None, greeting: bytes) -> AsyncIterator[int]:
    """A port where something answers that is no relay."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(greeting)

    server = await asyncio.start_server(serve, LOOPBACK, 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await server.wait_closed()


async def failure_at(port: int) -> Failure:
    with pytest.raises(AttemptFailed) as failed:
        await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
    return failed.value.failure


async def test_a_client_that_offers_only_tls_1_2_is_refused(relay: RunningRelay) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol"):
        await asyncio.open_connection(LOOPBACK, relay.port, ssl=old, server_hostname="")
    await (await relay.link()).close()


async def test_the_session_is_tls_1_3_and_leaves_no_ticket(relay: RunningRelay) -> None:
    link = await relay.link()
    await link.ping()
    assert link.encryption.version() == "TLSv1.3"
    assert link.encryption.session is None or not link.encryption.session.has_ticket
    await link.close()


async def test_a_client_without_tls_hears_no_frame(relay: RunningRelay) -> None:
    reader, writer = await asyncio.open_connection(LOOPBACK, relay.port)
    writer.write(codec.encode_frame(codec.Start(version=1, capabilities=0), 0))
    async with asyncio.timeout(SOON_S):
        heard = await reader.read()
    writer.close()
    assert heard[:1] in (b"", b"\x15")  # nothing, or a TLS alert
    await (await relay.link()).close()


async def test_a_server_that_speaks_only_tls_1_2_or_no_tls_at_all_is_left() -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    for context in (old, None):
        async with serving(context, b"220 hello\r\n" * 5) as port:
            assert await failure_at(port) in {Failure.TLS_HANDSHAKE_FAILED, Failure.CONNECTION_REFUSED}


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    """Made with the openssl tool's own words: self-signed, by the node's name."""
    process = await asyncio.create_subprocess_exec(
        "openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=restante node",
        "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate"),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await process.wait() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    async with serving(context, b"") as port:
        assert await failure_at(port) is Failure.TLS_HANDSHAKE_FAILED


@clause("6.5")
async def test_a_proof_relayed_by_one_who_has_even_the_nodes_key_opens_nothing(relay: RunningRelay) -> None:
    """The man in the middle ends Bob's encryption, shows him the node's own greeting, and passes his proof on."""
    async with RawPeer.connected(relay.port) as (towards_node, hello):
        proofs: asyncio.Future[codec.Subscribe] = asyncio.get_running_loop().create_future()

        async def pose_as_the_node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert channel_of(writer.get_extra_info("ssl_object")) != towards_node.channel
            writer.write(codec.encode_frame(hello, 0))
            understood = FrameReader()
            while not proofs.done() and (data := await reader.read(65_536)):
                for _, frame in understood.feed(data):
                    if isinstance(frame, codec.Subscribe):
                        proofs.set_result(frame)
            writer.close()

        trap = await asyncio.start_server(pose_as_the_node, LOOPBACK, 0, ssl=server_context(NODE))
        link = await TlsRelayConnection.connect(LOOPBACK, trap.sockets[0].getsockname()[1], node=NODE.node_key)
        opening = asyncio.create_task(link.subscribe(OwnInbox(BOB)))
        async with asyncio.timeout(SOON_S):
            proof = await proofs
        assert proof.blinded_key == OwnInbox(BOB).signer_at(NODE.node_key).public_key
        assert (await towards_node.refusal(proof)).code == "E103"
        with contextlib.suppress(AttemptFailed):
            await opening
        trap.close()


@clause("6.5")
async def test_another_key_cannot_tell_an_inbox_with_mail_from_one_that_nobody_ever_wrote_to(
    relay: RunningRelay,
) -> None:
    """Every question a stranger may ask about Bob's inbox has the same answer, byte for byte, before and after mail."""

    async def answers() -> list[codec.Frame | codec.Unknown]:
        async with RawPeer.connected(relay.port) as (peer, hello):
            guessed = await peer.refusal(peer.proof(BOB, hello, signer=MALLORY), 1)
        async with RawPeer.connected(relay.port) as (peer, hello):
            early = await peer.refusal(codec.Delete(blob_ids=(1,)), 2)
            opened = await peer.ask(peer.proof(MALLORY, hello), 3)
            deleted = await peer.ask(codec.Delete(blob_ids=(1, 2)), 4)
            return [guessed, early, opened, deleted, await peer.ask(codec.Ping(), 5)]

    before = await answers()
    link = await relay.link()
    await link.put(relay.envelope(b"for bob"))
    assert await answers() == before
    assert len(relay.held()) == 1
    await link.close()


def test_a_context_is_the_same_for_all_links() -> None:
    assert client_context() is client_context()
