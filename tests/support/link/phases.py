"""Both ends of a link in every phase, and every input as events, for tests and for the drawn page."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from restante.core.link.client_end import ANSWER_TIMEOUT_S, ClientLink
from restante.core.link.machine import LINGER_S, Link
from restante.core.link.messages import (
    CLOSE_REQUESTED,
    LOST,
    ClientSecured,
    Effect,
    Event,
    Faulted,
    FramesReceived,
    NodeSecured,
    Signal,
)
from restante.core.link.node_end import NODE_CAPABILITIES, NodeLink
from restante.core.link.table import CLIENT_TABLE, NODE_TABLE, Input, Phase, Table
from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError, RemoteProtocolError
from restante.policy.connection_limits import RelayLimits
from restante.wire.frames import codec
from restante.wire.frames.greeting import CHALLENGE_BYTES

NODE, STRANGER = Identity(b"n" * 32), Identity(b"s" * 32)
LIMITS = RelayLimits()
NOW_S = 1_000.0
FAMILY_TYPES = {int(codec.FrameType.PUT): 0, int(codec.FrameType.STORED): 0}
LATER_S = max(LIMITS.idle_timeout_ms, LIMITS.slow_reader_timeout_ms, LIMITS.frame_timeout_ms) / 1_000 + 1.0
UNKNOWN_TYPE = 0x7F
TABLES: dict[str, Table] = {"node": NODE_TABLE, "client": CLIENT_TABLE}
HELLO = codec.Hello(
    lowest_version=codec.PROTOCOL_VERSION,
    highest_version=codec.PROTOCOL_VERSION,
    capabilities=NODE_CAPABILITIES,
    challenge=bytes(CHALLENGE_BYTES),
    node_key=NODE.node_key,
    now_ms=1_700_000_000_000,
)
START = codec.Start(version=codec.PROTOCOL_VERSION, capabilities=NODE_CAPABILITIES)
REFUSED = codec.Refused(permanent=False, code="E004", retry_after_ms=0, text="full")


def raw(frame: codec.Frame, request: int = 1) -> codec.RawFrame:
    return codec.RawFrame(frame.TYPE, request, frame.body())


def received(*frames: codec.RawFrame) -> FramesReceived:
    return FramesReceived(list(frames))


def new_link(end: str) -> Link:
    if end == "node":
        return NodeLink(FAMILY_TYPES, LIMITS, now_s=NOW_S)
    return ClientLink(FAMILY_TYPES, NODE.node_key, LIMITS, now_s=NOW_S)


def secured(end: str) -> Event:
    return NodeSecured(HELLO) if end == "node" else ClientSecured(NODE.node_key)


def reached(end: str, phase: Phase) -> Link:
    """A new link that has just come to this phase."""
    link = new_link(end)
    steps: dict[Phase, list[Event]] = {
        Phase.CONNECTING: [],
        Phase.GREETING: [secured(end)],
        Phase.READY: [secured(end), received(raw(START if end == "node" else HELLO))],
        Phase.CLOSING: [secured(end), CLOSE_REQUESTED],
        Phase.CLOSED: [LOST],
    }
    for event in steps[phase]:
        link.handle(event, now_s=NOW_S)
    assert link.phase is phase
    return link


def _request(link: Link) -> list[Effect]:
    if not isinstance(link, ClientLink):
        raise LocalProtocolError("a node opens no requests")
    return link.open_request("caller", now_s=NOW_S)[1]


Act = Callable[[Link], list[Effect]]


def _at(event: Event, now_s: float = NOW_S) -> Act:
    return lambda link: link.handle(event, now_s=now_s)


def acts(end: str, given: Input) -> Iterator[Act]:
    """Every way in which the input can come that may lead to another phase."""
    frames: dict[Input, list[codec.RawFrame]] = {
        Input.HELLO: [
            raw(HELLO),
            raw(replace(HELLO, lowest_version=2, highest_version=3)),
            raw(replace(HELLO, node_key=STRANGER.node_key)),
        ],
        Input.START: [raw(START), raw(codec.Start(version=2, capabilities=0))],
        Input.PING: [raw(codec.Ping())],
        Input.PONG: [raw(codec.Pong())],
        Input.REFUSED: [raw(REFUSED)],
        Input.FAMILY: [codec.RawFrame(codec.FrameType.PUT, 1, b"envelope")],
        Input.UNKNOWN: [codec.RawFrame(UNKNOWN_TYPE, 1, b"new")],
    }
    if given in frames:
        yield from (_at(received(frame)) for frame in frames[given])
    elif given is Input.SECURED:
        yield _at(secured(end))
        if end == "client":
            yield _at(ClientSecured(STRANGER.node_key))
    elif given is Input.FAULT:
        yield _at(Faulted(RemoteProtocolError("no TLS")))
    elif given is Input.REQUEST_OPENED:
        yield _request
    elif given is Input.TIME_PASSED:
        yield from (_at(Signal(given), NOW_S + after) for after in (0.0, LINGER_S, ANSWER_TIMEOUT_S))
        yield _silent
    else:
        yield _at(Signal(given))


def _silent(link: Link) -> list[Effect]:
    """All timers until long after every deadline, as a host fires them."""
    effects: list[Effect] = []
    at_s = link.due_s()
    while at_s is not None and at_s < NOW_S + 2 * LATER_S:
        effects += link.handle(Signal(Input.TIME_PASSED), now_s=at_s + 0.001)
        at_s = link.due_s()
    return effects or link.handle(Signal(Input.TIME_PASSED), now_s=NOW_S + LATER_S)
