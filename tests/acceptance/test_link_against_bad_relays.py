"""The client's end of a relay link against relays that lie, fall silent or go away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace

import pytest

from restante.core.inboxes.relay_inbox import relay_inbox_key
from restante.core.link.client_end import ANSWER_TIMEOUT_S
from restante.core.mesh_proofs.receipts import SignedCommit, leaf_of
from restante.crypto.identity import Identity
from restante.model.ids import InboxKey
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.runtime.transport.tls import server_context
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames import codec
from support.relay.raw_peer import LOOPBACK, MALLORY, NODE, SOON_S
from support.spec.clauses import clause
from support.system.manual_event_loop import still_time
from support.wire.frame_reader import FrameReader

SENT = Envelope(
    inbox_key=relay_inbox_key(MALLORY.address, NODE.node_key),
    expires_at_ms=500_000 * 3_600_000,
    sealed=b"sealed bytes",
)
OTHER = replace(SENT, sealed=b"other bytes")
ENVELOPE = encode_envelope(SENT)
GREETING = codec.Hello(
    lowest_version=1, highest_version=1, capabilities=1, challenge=bytes(32), node_key=NODE.node_key, now_ms=0
)
HELLO = codec.encode_frame(GREETING, 0)
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@contextlib.asynccontextmanager
async def pretended_relay(converse: Conversation, *, identity: Identity = NODE) -> AsyncIterator[int]:
    """A port where whoever connects gets that conversation, encrypted by the key of `identity`."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await converse(reader, writer)

    server = await asyncio.start_server(serve, LOOPBACK, 0, ssl=server_context(identity))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


async def first_question(reader: asyncio.StreamReader) -> None:
    """Until a frame has come that wants an answer."""
    understood = FrameReader()
    while data := await reader.read(65_536):
        if any(request == 1 for request, _ in understood.feed(data)):
            return


def answering(answer: bytes) -> Conversation:
    """Greets, and gives this answer to the first question."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await first_question(reader)
        writer.write(answer)

    return converse


async def put_at(port: int) -> None:
    link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
    try:
        await link.put(ENVELOPE)
    finally:
        await link.close()


def stored(signer: Identity, *envelopes: Envelope, at: int = 0, length: int = 1) -> bytes:
    commit = SignedCommit(signer, [leaf_of(each) for each in envelopes], now_ms=5)
    requests = tuple(range(1, length + 1))
    return codec.encode_frame(codec.Stored(ack=commit.ack, requests=requests, path=commit.path(at, length)), 0)


def stored_later() -> bytes:
    """A true receipt with another time written on it."""
    commit = SignedCommit(NODE, [leaf_of(SENT)], now_ms=5)
    later = replace(commit.ack, timestamp_ms=6)
    return codec.encode_frame(codec.Stored(ack=later, requests=(1,), path=commit.path(0, 1)), 0)


@clause("7.8")
@pytest.mark.parametrize(
    "answer",
    [
        stored(MALLORY, SENT),
        stored(NODE, OTHER),
        stored(NODE, replace(SENT, inbox_key=InboxKey(b"m" * 32))),
        stored(NODE, replace(SENT, expires_at_ms=SENT.expires_at_ms - 3_600_000)),
        stored(NODE, OTHER, SENT),
        stored_later(),
        stored(NODE, SENT, OTHER, length=2),
        codec.encode_frame(codec.Pong(), 1),
        codec.encode_frame(codec.Deleted(), 1),
    ],
    ids=[
        "another's signature",
        "other bytes",
        "another inbox",
        "another expiry",
        "the path of another put",
        "another time",
        "a stranger's besides",
        "PONG",
        "DELETED",
    ],
)
async def test_an_acknowledgement_that_is_not_the_relays_word_for_these_bytes_is_no_success(answer: bytes) -> None:
    async with pretended_relay(answering(answer)) as port:
        with pytest.raises(AttemptFailed) as failed:
            await put_at(port)
        assert failed.value.failure is Failure.STORAGE_REFUSED


async def test_a_true_acknowledgement_is_taken() -> None:
    async with pretended_relay(answering(stored(NODE, SENT))) as port:
        await put_at(port)


async def test_an_answer_of_the_wrong_kind_ends_the_link() -> None:
    async with pretended_relay(answering(codec.encode_frame(codec.Subscribed(), 1))) as port:
        link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
        with pytest.raises(AttemptFailed, match="wrong kind"):
            await link.delete(1)
        with pytest.raises(ConnectionLost):
            await link.next_blob()


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x05\x7f\x00\x00\x00\x01"])
async def test_an_answer_that_breaks_the_format_ends_the_link(answer: bytes) -> None:
    async with pretended_relay(answering(answer)) as port:
        with pytest.raises(ConnectionLost):
            await put_at(port)


@clause("6.7")
@pytest.mark.parametrize(
    ("permanent", "code", "failure"),
    [
        (True, "E006", Failure.TOO_LARGE),
        (True, "E101", Failure.INVALID_FORMAT),
        (False, "E102", Failure.EXPIRES_TOO_SOON),
        (False, "E006", Failure.STORAGE_REFUSED),
        (True, "E999", Failure.INVALID_FORMAT),
        (True, "E103", Failure.AUTHENTICATION_FAILED),
        (False, "E004", Failure.STORAGE_REFUSED),
        (False, "E999", Failure.STORAGE_REFUSED),
        (False, "E007", Failure.RATE_LIMITED),
    ],
)
async def test_a_refusal_is_the_failure_it_stands_for(permanent: bool, code: str, failure: Failure) -> None:
    refused = codec.Refused(permanent=permanent, code=code, retry_after_ms=1_500, text="no")
    async with pretended_relay(answering(codec.encode_frame(refused, 1))) as port:
        with pytest.raises(AttemptFailed, match="no") as failed:
            await put_at(port)
        assert failed.value.failure is failure
        assert failed.value.retry_after_ms == 1_500


async def test_what_is_under_way_fails_at_once_when_the_relay_goes_away() -> None:
    asked = asyncio.Event()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        await first_question(reader)
        asked.set()
        writer.close()

    async with pretended_relay(converse) as port:
        link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
        waiting = [asyncio.create_task(link.next_blob()), asyncio.create_task(link.put(ENVELOPE))]
        async with asyncio.timeout(SOON_S):
            await asked.wait()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ConnectionLost, ConnectionLost]
        for later in (link.put(ENVELOPE), link.next_blob(), link.delete(1)):
            with pytest.raises(ConnectionLost):
                await later


async def test_a_port_where_nobody_listens_is_a_refused_connection() -> None:
    async with pretended_relay(answering(b"")) as port:
        pass
    with pytest.raises(AttemptFailed) as failed:
        await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
    assert failed.value.failure is Failure.CONNECTION_REFUSED


async def test_a_relay_that_hangs_up_before_its_greeting_is_a_failed_try() -> None:
    async def converse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with pretended_relay(converse) as port:
        with pytest.raises(AttemptFailed):
            await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)


class Mute:
    """Takes connections and says nothing; knows when the other side has left."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.connected = asyncio.Event()
        self.left = asyncio.Event()
        self._greeting = greeting

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._greeting)
        self.connected.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        self.left.set()


async def test_a_relay_that_never_greets_is_given_up_and_hung_up_on() -> None:
    mute = Mute()
    with still_time() as time:
        async with pretended_relay(mute.converse) as port:
            connecting = asyncio.create_task(TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key))
            await mute.connected.wait()
            time.advance(ANSWER_TIMEOUT_S)
            with pytest.raises(AttemptFailed) as failed:
                await connecting
            assert failed.value.failure is Failure.CONNECTION_REFUSED
            await mute.left.wait()


async def test_a_relay_that_never_answers_is_a_time_out() -> None:
    mute = Mute(HELLO)
    with still_time() as time:
        async with pretended_relay(mute.converse) as port:
            link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
            putting = asyncio.create_task(link.put(ENVELOPE))
            await asyncio.sleep(0)  # it has begun
            time.advance(ANSWER_TIMEOUT_S)
            with pytest.raises(AttemptFailed) as failed:
                await putting
            assert failed.value.failure is Failure.NETWORK_TIMEOUT
            await link.close()


async def test_a_connection_given_up_half_way_is_not_left_open() -> None:
    mute = Mute()
    async with pretended_relay(mute.converse) as port:
        connecting = asyncio.create_task(TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key))
        async with asyncio.timeout(SOON_S):
            await mute.connected.wait()
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await mute.left.wait()


async def test_a_relay_that_calls_itself_another_node_is_left() -> None:
    impostor = codec.encode_frame(replace(GREETING, node_key=MALLORY.node_key), 0)
    async with pretended_relay(Mute(impostor).converse) as port:
        with pytest.raises(AttemptFailed, match="another node") as failed:
            await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
        assert failed.value.failure is Failure.AUTHENTICATION_FAILED


async def test_a_relay_that_speaks_only_later_versions_is_left() -> None:
    later = codec.encode_frame(replace(GREETING, lowest_version=2, highest_version=3), 0)
    async with pretended_relay(Mute(later).converse) as port:
        with pytest.raises(AttemptFailed, match="other versions"):
            await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)


async def test_another_key_gets_not_a_single_byte_of_ours() -> None:
    heard: list[bytes] = []
    left = asyncio.Event()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        with contextlib.suppress(ConnectionError):
            heard.append(await reader.read())
        left.set()

    async with pretended_relay(converse, identity=MALLORY) as port:
        with pytest.raises(AttemptFailed, match="another node") as failed:
            await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
        assert failed.value.failure is Failure.AUTHENTICATION_FAILED
    assert heard in ([], [b""])


async def test_a_relay_that_sends_far_more_than_is_taken_is_left() -> None:
    flood = codec.encode_blobs((number, 5, b"blob") for number in range(1, 5_000))

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO + flood)
        with contextlib.suppress(ConnectionError):
            await reader.read()

    async with pretended_relay(converse) as port:
        link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key)
        with pytest.raises(ConnectionLost):
            async with asyncio.timeout(SOON_S):
                await link.ping()


@clause("6.8")
async def test_a_client_says_by_itself_that_it_is_still_there_and_leaves_a_relay_that_is_not() -> None:
    beats = asyncio.Semaphore(0)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HELLO)
        understood = FrameReader()
        while data := await reader.read(65_536):
            for _, frame in understood.feed(data):
                if frame == codec.Ping():
                    beats.release()

    limits = RelayLimits()
    with still_time() as time:
        async with pretended_relay(converse) as port:
            link = await TlsRelayConnection.connect(LOOPBACK, port, node=NODE.node_key, limits=limits)
            for _ in range(limits.idle_timeout_ms // limits.heartbeat_interval_ms + 1):
                await beats.acquire()
                time.advance(limits.heartbeat_interval_ms / 1_000)
            with pytest.raises(ConnectionLost):  # it never heard an answer
                await link.next_blob()
