"""What the two ends of a link do in their phases: greeting, dispatch, flow control and deadlines."""

import pytest

from restante.core.link.client_end import ANSWER_TIMEOUT_S, ClientLink
from restante.core.link.machine import LINGER_S
from restante.core.link.messages import (
    READING_PAUSED,
    READING_RESUMED,
    TIME_PASSED,
    WRITE_BLOCKED,
    WRITE_RESUMED,
    Abort,
    Answer,
    BecomeReady,
    ClientSecured,
    Close,
    CloseReason,
    Dispatch,
    Effect,
    ExpireRequests,
    Faulted,
    FramesReceived,
    NodeSecured,
    OpenWindow,
    Refuse,
    ReportFault,
    Send,
    StartReading,
    StopReading,
    WakeAt,
)
from restante.core.link.table import Phase
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.wire.frames import codec
from support.link.phases import (
    HELLO,
    LIMITS,
    NODE,
    NOW_S,
    REFUSED,
    START,
    STRANGER,
    UNKNOWN_TYPE,
    new_link,
    raw,
    reached,
    received,
)
from support.spec.clauses import clause

PUT = codec.RawFrame(codec.FrameType.PUT, 7, b"envelope")
STORED = codec.RawFrame(codec.FrameType.STORED, 0, b"evidence")
UNKNOWN = codec.RawFrame(UNKNOWN_TYPE, 9, b"new")


def ready_client() -> ClientLink[str]:
    link = reached("client", Phase.READY)
    assert isinstance(link, ClientLink)
    return link


def without_timers(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def test_a_node_greets_first_and_waits_for_start() -> None:
    link = new_link("node")
    assert without_timers(link.handle(NodeSecured(HELLO), now_s=NOW_S)) == [Send(codec.encode_frame(HELLO, 0))]
    assert link.handle(received(raw(START)), now_s=NOW_S) == []
    assert link.phase is Phase.READY


def test_a_client_checks_the_key_before_it_sends_a_byte() -> None:
    link = new_link("client")
    assert link.handle(ClientSecured(STRANGER.node_key), now_s=NOW_S) == [Abort(CloseReason.WRONG_NODE)]


def test_a_client_answers_hello_with_start_and_a_heartbeat() -> None:
    link = new_link("client")
    assert without_timers(link.handle(ClientSecured(NODE.node_key), now_s=NOW_S)) == []
    assert without_timers(link.handle(received(raw(HELLO)), now_s=NOW_S)) == [
        Send(codec.encode_frame(START, 0)),
        BecomeReady(HELLO),
        Send(codec.encode_frame(codec.Ping(), 0)),
    ]


def test_frames_of_a_family_are_dispatched_in_runs_and_in_order() -> None:
    link = reached("node", Phase.READY)
    effects = link.handle(received(PUT, PUT, raw(codec.Ping(), 3), PUT), now_s=NOW_S)
    assert effects == [
        Dispatch(0, [PUT, PUT]),
        Send(codec.encode_frame(codec.Pong(), 3)),
        Dispatch(0, [PUT]),
    ]


def test_a_start_and_the_first_frames_may_come_together() -> None:
    link = reached("node", Phase.GREETING)
    assert without_timers(link.handle(received(PUT, raw(START, 0), PUT), now_s=NOW_S)) == [
        Refuse(7, Code.ILLEGAL_TRANSITION, "family is not allowed while the connection is greeting"),
        Dispatch(0, [PUT]),
    ]


def test_a_node_refuses_an_unknown_type_and_the_link_stays() -> None:
    link = reached("node", Phase.READY)
    [refused] = link.handle(received(UNKNOWN), now_s=NOW_S)
    assert isinstance(refused, Refuse)
    assert (refused.request, refused.code) == (9, Code.MALFORMED)
    assert link.phase is Phase.READY


def test_what_came_before_a_broken_frame_still_counts() -> None:
    link = ready_client()
    effects = link.handle(received(STORED, UNKNOWN, STORED), now_s=NOW_S)
    assert effects[0] == Dispatch(0, [STORED])
    assert isinstance(effects[1], ReportFault)
    assert len(effects) == 2


def test_a_node_says_why_before_it_closes_on_broken_bytes() -> None:
    link = reached("node", Phase.READY)
    effects = without_timers(link.handle(Faulted(RemoteProtocolError("bad length")), now_s=NOW_S))
    assert effects == [Refuse(0, Code.MALFORMED, "bad length"), Close(CloseReason.PROTOCOL_ERROR)]


@clause("6.8")
@pytest.mark.parametrize("phase", [Phase.CONNECTING, Phase.GREETING])
def test_the_handshake_deadline_counts_from_the_connection_and_pings_do_not_move_it(phase: Phase) -> None:
    link = reached("node", phase)
    deadline_s = NOW_S + LIMITS.handshake_timeout_ms / 1_000
    if phase is Phase.GREETING:
        link.handle(received(raw(codec.Ping())), now_s=deadline_s - 0.1)
    assert link.due_s() == deadline_s
    assert without_timers(link.handle(TIME_PASSED, now_s=deadline_s - 0.1)) == []
    assert link.handle(TIME_PASSED, now_s=deadline_s) == [Abort(CloseReason.HANDSHAKE_TIMEOUT)]


@clause("6.8")
def test_a_timer_that_fires_early_orders_the_next_one() -> None:
    link = reached("node", Phase.READY)
    idle_s = LIMITS.idle_timeout_ms / 1_000
    link.handle(received(raw(codec.Ping())), now_s=NOW_S + 50.0)
    assert link.handle(TIME_PASSED, now_s=NOW_S + idle_s) == [WakeAt(NOW_S + 50.0 + idle_s)]
    assert link.handle(TIME_PASSED, now_s=NOW_S + 50.0 + idle_s) == [Abort(CloseReason.IDLE_TIMEOUT)]


@clause("6.8")
def test_a_frame_must_be_whole_within_its_time_out_from_its_first_byte() -> None:
    link = reached("node", Phase.READY)
    frame_s = LIMITS.frame_timeout_ms / 1_000
    link.handle(FramesReceived([], 3), now_s=NOW_S)
    for second in range(1, int(frame_s)):  # a byte a second stretches nothing
        link.handle(FramesReceived([], 3 + second), now_s=NOW_S + second)
    assert link.due_s() == NOW_S + frame_s
    assert link.handle(TIME_PASSED, now_s=NOW_S + frame_s) == [Abort(CloseReason.FRAME_TIMEOUT)]


@clause("6.8")
def test_a_new_partial_frame_has_a_time_out_of_its_own() -> None:
    link = reached("node", Phase.READY)
    link.handle(FramesReceived([], 3), now_s=NOW_S)
    link.handle(FramesReceived([PUT], 3), now_s=NOW_S + 20.0)
    assert link.due_s() == NOW_S + 20.0 + LIMITS.frame_timeout_ms / 1_000
    link.handle(FramesReceived([PUT], 0), now_s=NOW_S + 21.0)
    assert link.due_s() == NOW_S + 21.0 + LIMITS.idle_timeout_ms / 1_000


@clause("6.8")
def test_a_peer_that_does_not_read_is_not_read_from_and_then_dropped() -> None:
    link = reached("node", Phase.READY)
    assert without_timers(link.handle(WRITE_BLOCKED, now_s=NOW_S)) == [StopReading()]
    assert link.due_s() == NOW_S + LIMITS.slow_reader_timeout_ms / 1_000
    assert link.handle(TIME_PASSED, now_s=NOW_S + LIMITS.slow_reader_timeout_ms / 1_000) == [
        Abort(CloseReason.SLOW_READER)
    ]


def test_reading_resumes_only_when_neither_side_holds_it() -> None:
    link = reached("node", Phase.READY)
    assert without_timers(link.handle(READING_PAUSED, now_s=NOW_S)) == [StopReading()]
    assert without_timers(link.handle(WRITE_BLOCKED, now_s=NOW_S)) == []
    assert without_timers(link.handle(READING_RESUMED, now_s=NOW_S)) == []
    assert without_timers(link.handle(WRITE_RESUMED, now_s=NOW_S)) == [OpenWindow(), StartReading()]


def test_silence_while_the_node_does_not_read_is_not_held_against_the_peer() -> None:
    link = reached("node", Phase.READY)
    link.handle(FramesReceived([], 5), now_s=NOW_S)
    link.handle(READING_PAUSED, now_s=NOW_S)
    assert link.due_s() is None
    link.handle(READING_RESUMED, now_s=NOW_S + 1_000.0)
    assert link.due_s() == NOW_S + 1_000.0 + LIMITS.frame_timeout_ms / 1_000


def test_a_closing_link_that_does_not_end_is_aborted() -> None:
    link = reached("node", Phase.CLOSING)
    assert link.due_s() == NOW_S + LINGER_S
    assert link.handle(TIME_PASSED, now_s=NOW_S + LINGER_S) == [Abort()]


def test_an_answer_reaches_the_request_that_is_open_and_nothing_else() -> None:
    link = ready_client()
    number, _ = link.open_request("caller", now_s=NOW_S)
    assert link.handle(received(raw(REFUSED, number + 1)), now_s=NOW_S) == []
    assert link.handle(received(raw(REFUSED, number)), now_s=NOW_S) == [Answer("caller", REFUSED)]
    assert link.handle(received(raw(REFUSED, number)), now_s=NOW_S) == []


@clause("6.8")
def test_a_request_without_answer_expires() -> None:
    link = ready_client()
    link.open_request("first", now_s=NOW_S)
    link.open_request("second", now_s=NOW_S + 1.0)
    assert link.handle(TIME_PASSED, now_s=NOW_S + ANSWER_TIMEOUT_S) == [
        ExpireRequests(("first",)),
        WakeAt(NOW_S + 1.0 + ANSWER_TIMEOUT_S),
    ]


@clause("6.8")
def test_a_client_sends_heartbeats_and_gives_up_a_silent_node() -> None:
    link = ready_client()
    beat_s, idle_s = LIMITS.heartbeat_interval_ms / 1_000, LIMITS.idle_timeout_ms / 1_000
    at_s = NOW_S
    beats = 0
    while link.phase is Phase.READY:
        at_s += beat_s
        beats += Send(codec.encode_frame(codec.Ping(), 0)) in link.handle(TIME_PASSED, now_s=at_s)
    assert beats == idle_s // beat_s
    assert at_s > NOW_S + idle_s
