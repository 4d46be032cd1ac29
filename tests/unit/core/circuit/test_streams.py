"""core/circuit: STORE and BEGIN streams between client and exit, their credits and their bounds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restante.core.circuit.client_streams import Break as ClientBreak
from restante.core.circuit.client_streams import ClientStreams, SendCell
from restante.core.circuit.exit_streams import Break as ExitBreak
from restante.core.circuit.exit_streams import ByteBudget, ExitStreams, Reply
from restante.core.circuit.flow import CIRCUIT_WINDOW, MAX_STREAMS, STREAM_WINDOW, Flow
from restante.core.circuit.stream_table import CLIENT_STREAMS, EXIT_STREAMS, StreamInput, StreamPhase
from restante.model.errors import LocalProtocolError, RemoteProtocolError
from restante.model.ids import BlindedKey, NodeId
from restante.wire.circuit.cells import BODY_BYTES, CellClass, CellContent, Command
from restante.wire.circuit.streams import (
    Failed,
    StoreAnswer,
    StoreRequest,
    StreamFailure,
    encode_credit,
    encode_store,
    encode_stored,
)
from support.circuit.stream_pair import StreamPair
from support.spec.clauses import clause

NODE = NodeId(b"n" * 32)
SMALL = BODY_BYTES[CellClass.SMALL]


def request(size: int = 5_300, nodes: int = 5) -> StoreRequest:
    ids = tuple(NodeId(bytes([number]) * 32) for number in range(1, nodes + 1))
    return StoreRequest(ids, BlindedKey(b"b" * 32), 7, bytes(size))


@clause("11.6")
@given(size=st.integers(1, 262_144), nodes=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_a_store_is_uploaded_once_and_every_node_answers(size: int, nodes: int) -> None:
    pair = StreamPair()
    stream, effects = pair.client.store(request(size, nodes))
    pair.run(effects)
    assert pair.requests == [request(size, nodes)]
    assert [answer.place for answer in pair.answers] == list(range(nodes))
    assert pair.over == {stream: None}
    assert pair.exit.open_streams == ()
    assert pair.budget.used == 0
    assert not pair.broken


@clause("11.3")
def test_a_store_is_owed_an_answer_until_the_first_node_has_answered() -> None:
    client = ClientStreams()
    first, _ = client.store(request(nodes=2))
    second, _ = client.store(request(nodes=2))
    owed = [client.is_owed_an_answer]
    for stream in (first, second):
        client.received(CellContent(Command.STORED, stream, encode_stored(StoreAnswer(1, 1, b""))), CellClass.SMALL)
        owed.append(client.is_owed_an_answer)
    assert owed == [True, True, False], "a node that takes longer than others says nothing about the circuit"


@clause("11.3")
def test_an_inner_connection_is_owed_an_answer_from_what_it_writes_to_what_comes() -> None:
    client = ClientStreams()
    stream, _ = client.begin(NODE)
    owed = [client.is_owed_an_answer]
    client.received(CellContent(Command.CONNECTED, stream), CellClass.SMALL)
    owed.append(client.is_owed_an_answer)
    client.write(stream, b"a question")
    owed.append(client.is_owed_an_answer)
    client.received(CellContent(Command.DATA, stream, b"a part of the answer"), CellClass.SMALL)
    owed.append(client.is_owed_an_answer)
    assert owed == [True, False, True, False]


def test_ordinary_mail_takes_three_small_cells() -> None:
    pair = StreamPair()
    pair.run(pair.client.store(request(5_300, 5))[1])
    assert pair.cells == 3


@clause("11.6")
@given(st.lists(st.binary(min_size=1, max_size=60_000), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_an_inner_connection_passes_all_bytes_in_order(pieces: list[bytes]) -> None:
    pair = StreamPair()
    stream, effects = pair.client.begin(NODE)
    pair.run(effects)
    for piece in pieces:
        pair.run(pair.client.write(stream, piece))
    assert bytes(pair.received[stream]) == bytes(pair.at_node[stream]) == b"".join(pieces)
    assert not pair.broken
    pair.run(pair.client.close(stream))
    assert pair.hung_up == [stream]


@clause("11.5")
def test_what_the_node_does_not_take_stops_at_the_window_of_the_stream() -> None:
    pair = StreamPair()
    pair.holds_writes = True
    stream, effects = pair.client.begin(NODE)
    pair.run(effects)
    pair.run(pair.client.write(stream, bytes(2 * STREAM_WINDOW)))
    assert STREAM_WINDOW - 2 * BODY_BYTES[CellClass.LARGE] < len(pair.at_node[stream]) <= STREAM_WINDOW
    assert pair.client.is_waiting(stream)
    assert pair.drained == []
    assert not pair.broken


@clause("11.5")
def test_what_the_client_does_not_take_stops_the_reading_at_the_exit() -> None:
    pair = StreamPair()
    pair.consumes = False
    stream, effects = pair.client.begin(NODE)
    pair.run(effects)
    pair.run(pair.exit.read(stream, bytes(2 * STREAM_WINDOW)))
    assert pair.stopped == {stream}
    assert len(pair.received[stream]) <= STREAM_WINDOW
    pair.consumes = True
    for held in pair.unconsumed:
        pair.run(pair.client.consumed(*held))
    assert len(pair.received[stream]) == 2 * STREAM_WINDOW
    assert pair.stopped == set()


def test_the_circuit_window_bounds_all_streams_together() -> None:
    pair = StreamPair()
    pair.holds_writes = True
    for _ in range(4):
        stream, effects = pair.client.begin(NODE)
        pair.run(effects)
        pair.run(pair.client.write(stream, bytes(STREAM_WINDOW)))
    assert CIRCUIT_WINDOW - 64_000 < sum(map(len, pair.at_node.values())) <= CIRCUIT_WINDOW


def test_streams_take_turns() -> None:
    flow = Flow()
    for stream in (1, 2):
        flow.open(stream)
        for _ in range(3):
            flow.queue(Command.DATA, stream, b"x")
    assert [content.stream for content, _ in flow.take()] == [1, 2, 1, 2, 1, 2]


@clause("11.2")
def test_an_exit_takes_a_hundred_stores_a_minute_and_then_says_when_to_come_again() -> None:
    pair = StreamPair()
    for _ in range(100):
        pair.run(pair.client.store(request(10, 1))[1])
    stream, effects = pair.client.store(request(10, 1))
    pair.run(effects)
    failed = pair.over[stream]
    assert isinstance(failed, Failed)
    assert failed.failure is StreamFailure.RATE_LIMITED
    assert 0 < failed.retry_after_ms <= 600
    pair.now_s = failed.retry_after_ms / 1_000
    pair.run(pair.client.store(request(10, 1))[1])
    assert len(pair.requests) == 101


@clause("11.5")
def test_uploads_of_all_circuits_share_a_bounded_memory() -> None:
    pair = StreamPair(max_bytes=1_000)
    stream, effects = pair.client.store(request(2_000))
    pair.run(effects)
    assert pair.over[stream] == Failed(StreamFailure.BUSY)
    assert pair.budget.used == 0


def test_an_upload_that_ends_with_its_circuit_gives_its_memory_back() -> None:
    budget = ByteBudget(1_000_000)
    streams = ExitStreams(budget, now_s=0)
    streams.received(CellContent(Command.STORE, 1, encode_store(request())[:1_900]), CellClass.SMALL, now_s=0)
    assert budget.used > 5_000
    streams.closed()
    assert budget.used == 0


@clause("11.5")
def test_a_message_counts_until_its_last_node_has_answered_though_its_stream_has_ended() -> None:
    budget = ByteBudget(1_000_000)
    streams = ExitStreams(budget, now_s=0)
    used: list[bool] = []
    for stream in (1, 2):
        streams.received(CellContent(Command.STORE, stream, encode_store(request(nodes=2))), CellClass.LARGE, now_s=0)
        streams.received(CellContent(Command.END, stream), CellClass.SMALL, now_s=0)
    assert streams.open_streams == ()
    for stream, place in ((1, 0), (2, 1), (1, 1)):
        assert streams.answered(stream, StoreAnswer(place, 0, b"")) == ()
        used.append(budget.used >= 2 * 5_300)
    assert used == [True, True, False]
    assert budget.used > 5_300
    streams.closed()
    assert budget.used == 0


@clause("11.5")
def test_a_client_ends_as_many_streams_as_it_likes() -> None:
    pair = StreamPair(echoes=False)
    for _ in range(2 * CIRCUIT_WINDOW // SMALL):
        stream, effects = pair.client.begin(NODE)
        pair.run(effects)
        pair.run(pair.client.close(stream))
    assert not pair.broken
    assert pair.exit.open_streams == ()


@clause("11.5")
def test_a_client_ends_a_stream_for_which_it_has_no_credit() -> None:
    pair = StreamPair()
    pair.holds_writes = True
    stream = pair.use_up_window(NODE)
    pair.run(pair.client.close(stream))
    assert not pair.broken
    assert pair.hung_up == [stream]


@clause("11.7")
def test_a_node_that_can_not_be_dialled_is_reported() -> None:
    pair = StreamPair(dials=False)
    stream, effects = pair.client.begin(NODE)
    pair.run(effects)
    assert pair.over == {stream: Failed(StreamFailure.UNREACHABLE)}


@clause("11.6")
def test_a_circuit_never_carries_stores_and_inner_connections() -> None:
    pair = StreamPair()
    pair.run(pair.client.begin(NODE)[1])
    with pytest.raises(LocalProtocolError, match="never both"):
        pair.client.store(request())
    cell = CellContent(Command.STORE, 2, encode_store(request(10)))
    assert pair.exit.received(cell, CellClass.SMALL, now_s=0) == (ExitBreak(),)


@clause("11.5")
def test_a_circuit_has_at_most_eight_streams() -> None:
    pair = StreamPair()
    for _ in range(MAX_STREAMS):
        pair.run(pair.client.begin(NODE)[1])
    assert pair.client.is_full
    with pytest.raises(LocalProtocolError, match="at most 8"):
        pair.client.begin(NODE)
    assert pair.exit.received(CellContent(Command.BEGIN, 9, NODE), CellClass.SMALL, now_s=0) == (ExitBreak(),)


@pytest.mark.parametrize(
    "content",
    [
        CellContent(Command.DATA, 5, b"x"),
        CellContent(Command.DATA, 0, b"x"),
        CellContent(Command.BEGIN, 1, NODE),
        CellContent(Command.BEGIN, 2, b"short"),
        CellContent(Command.STORED, 1, b"x"),
        CellContent(Command.CREDIT, 1, encode_credit(STREAM_WINDOW)),
        CellContent(Command.CREDIT, 0, encode_credit(CIRCUIT_WINDOW)),
        CellContent(Command.CREDIT, 1, b"x"),
        CellContent(Command.EXTENDED, 1),
    ],
    ids=lambda content: f"{content.command.name} {content.stream} {content.data[:4]!r}",
)
def test_an_exit_breaks_with_a_client_that_breaks_the_protocol(content: CellContent) -> None:
    streams = ExitStreams(ByteBudget(1_000_000), now_s=0)
    streams.received(CellContent(Command.BEGIN, 1, NODE), CellClass.SMALL, now_s=0)
    streams.connected(1)
    assert streams.received(content, CellClass.SMALL, now_s=0) == (ExitBreak(),)


@pytest.mark.parametrize(
    "content",
    [
        CellContent(Command.DATA, 2, b"x"),
        CellContent(Command.STORED, 1, b"xx"),
        CellContent(Command.BEGIN, 1, NODE),
        CellContent(Command.CREDIT, 1, encode_credit(STREAM_WINDOW)),
    ],
    ids=lambda content: f"{content.command.name} {content.stream}",
)
def test_a_client_breaks_with_an_exit_that_breaks_the_protocol(content: CellContent) -> None:
    streams = ClientStreams()
    streams.begin(NODE)
    streams.received(CellContent(Command.CONNECTED, 1), CellClass.SMALL)
    assert streams.received(content, CellClass.SMALL) == (ClientBreak(),)


def test_more_than_the_credit_breaks_the_circuit() -> None:
    flow = Flow()
    flow.open(1)
    for _ in range(STREAM_WINDOW // SMALL):
        flow.received(1, CellClass.SMALL)
    with pytest.raises(RemoteProtocolError, match="more than its credit"):
        flow.received(1, CellClass.SMALL)


def test_late_data_of_a_closed_stream_gives_the_circuit_its_credit_back() -> None:
    streams = ClientStreams()
    streams.begin(NODE)
    streams.received(CellContent(Command.CONNECTED, 1), CellClass.SMALL)
    streams.close(1)
    sent: list[SendCell] = []
    for _ in range(2 * CIRCUIT_WINDOW // SMALL):
        late = streams.received(CellContent(Command.DATA, 1, b"x"), CellClass.SMALL)
        assert ClientBreak() not in late
        sent += [each for each in late if isinstance(each, SendCell)]
    assert {each.content.stream for each in sent} == {0}


EXIT_ACTS = {
    StreamInput.DATA: lambda end: end.received(CellContent(Command.DATA, 1, b"x"), CellClass.SMALL, now_s=0),
    StreamInput.END: lambda end: end.received(CellContent(Command.END, 1), CellClass.SMALL, now_s=0),
    StreamInput.STORED: lambda end: end.answered(1, StoreAnswer(0, 0, b"")),
    StreamInput.CONNECTED: lambda end: end.connected(1),
    StreamInput.FAILED: lambda end: end.dial_failed(1, StreamFailure.UNREACHABLE),
    StreamInput.WRITE: lambda end: end.read(1, b"x"),
    StreamInput.CLOSE: lambda end: end.hung_up(1),
}
CLIENT_ACTS = {
    StreamInput.DATA: lambda end: end.received(CellContent(Command.DATA, 1, b"x"), CellClass.SMALL),
    StreamInput.END: lambda end: end.received(CellContent(Command.END, 1), CellClass.SMALL),
    StreamInput.STORED: lambda end: end.received(CellContent(Command.STORED, 1, b"xx"), CellClass.SMALL),
    StreamInput.CONNECTED: lambda end: end.received(CellContent(Command.CONNECTED, 1), CellClass.SMALL),
    StreamInput.FAILED: lambda end: end.received(CellContent(Command.FAILED, 1, b"\2" + bytes(4)), CellClass.SMALL),
    StreamInput.WRITE: lambda end: end.write(1, b"x"),
    StreamInput.CLOSE: lambda end: end.close(1),
}


def exit_in(phase: StreamPhase) -> ExitStreams:
    streams = ExitStreams(ByteBudget(1_000_000), now_s=0)
    whole = encode_store(request(1_000))
    if phase in (StreamPhase.UPLOADING, StreamPhase.STORING):
        first = whole[:1_100] if phase is StreamPhase.UPLOADING else whole
        streams.received(CellContent(Command.STORE, 1, first), CellClass.SMALL, now_s=0)
    else:
        streams.received(CellContent(Command.BEGIN, 1, NODE), CellClass.SMALL, now_s=0)
        if phase is not StreamPhase.DIALLING:
            streams.connected(1)
        if phase is StreamPhase.ENDED:
            streams.hung_up(1)
    assert streams.phase_of(1) is phase
    return streams


def client_in(phase: StreamPhase) -> ClientStreams:
    streams = ClientStreams()
    if phase is StreamPhase.STORING:
        streams.store(request())
    else:
        streams.begin(NODE)
        if phase is not StreamPhase.DIALLING:
            streams.received(CellContent(Command.CONNECTED, 1), CellClass.SMALL)
        if phase is StreamPhase.ENDED:
            streams.close(1)
    assert streams.phase_of(1) is phase
    return streams


@pytest.mark.parametrize("act", EXIT_ACTS, ids=str)
@pytest.mark.parametrize("phase", EXIT_STREAMS, ids=str)
def test_a_stream_at_the_exit_follows_its_table(phase: StreamPhase, act: StreamInput) -> None:
    streams, allowed = exit_in(phase), EXIT_STREAMS[phase].get(act)
    is_remote = act in (StreamInput.DATA, StreamInput.END)
    if allowed is None and not is_remote:
        with pytest.raises(LocalProtocolError):
            EXIT_ACTS[act](streams)
        assert streams.phase_of(1) is phase
        return
    effects = EXIT_ACTS[act](streams)
    assert (ExitBreak() in effects) == (allowed is None)
    assert allowed is None or streams.phase_of(1) in allowed


@pytest.mark.parametrize("act", CLIENT_ACTS, ids=str)
@pytest.mark.parametrize("phase", CLIENT_STREAMS, ids=str)
def test_a_stream_at_the_client_follows_its_table(phase: StreamPhase, act: StreamInput) -> None:
    streams, allowed = client_in(phase), CLIENT_STREAMS[phase].get(act)
    if allowed is None and act in (StreamInput.WRITE, StreamInput.CLOSE):
        with pytest.raises(LocalProtocolError):
            CLIENT_ACTS[act](streams)
        assert streams.phase_of(1) is phase
        return
    effects = CLIENT_ACTS[act](streams)
    assert (ClientBreak() in effects) == (allowed is None)
    assert allowed is None or streams.phase_of(1) in allowed


def test_an_exit_answers_a_dial_that_the_client_gave_up_with_nothing() -> None:
    streams = exit_in(StreamPhase.DIALLING)
    streams.received(CellContent(Command.END, 1), CellClass.SMALL, now_s=0)
    assert not any(isinstance(each, Reply) for each in streams.connected(1))
