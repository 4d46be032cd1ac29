"""Large requests of one source take turns with those of others; small ones do not wait for them (SPEC 6.8, 7.12)."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from restante.model.errors import Malformed
from restante.node.mesh.turns import LARGE_BYTES, InTurns, Turns
from restante.policy.connection_limits import MAX_UNCOMMITTED_PER_CONNECTION, RelayLimits
from restante.policy.mesh.bounds import MOST_ANSWERS
from restante.wire.frames.codec import RawFrame
from restante.wire.frames.mesh_types import MeshFrameType
from support.spec.clauses import clause


class RecordingPeer:
    def __init__(self, source: str) -> None:
        self.source = source
        self.refused: list[int] = []
        self.is_aborted = False

    def refuse(self, request: int, _refusal: object, *, retry_after_ms: int) -> None:
        assert retry_after_ms
        self.refused.append(request)

    def abort(self) -> None:
        self.is_aborted = True


class RecordingConnection:
    def __init__(self, name: str, handled: list[tuple[str, int]]) -> None:
        self.name = name
        self.handled = handled
        self.fails = False
        self.parts = 1

    def check_ahead(self, frame: RawFrame, *, now_s: float) -> bool:
        assert frame.body
        assert now_s >= 0
        self.parts -= 1
        return self.parts <= 0

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        assert now_s >= 0
        if self.fails:
            raise Malformed("malformed")
        self.handled += [(self.name, each.request) for each in frames]

    def window_opened(self) -> None: ...

    def lost(self) -> None: ...


def frame(request: int, *, is_large: bool) -> RawFrame:
    return RawFrame(MeshFrameType.FETCH, request, bytes(LARGE_BYTES + is_large))


def large(*requests: int) -> list[RawFrame]:
    return [frame(each, is_large=True) for each in requests]


def small(*requests: int) -> list[RawFrame]:
    return [frame(each, is_large=False) for each in requests]


class Node:
    def __init__(self) -> None:
        self.turns = Turns(RelayLimits())
        self.handled: list[tuple[str, int]] = []

    def connect(self, name: str, source: str) -> tuple[InTurns, RecordingPeer, RecordingConnection]:
        peer, connection = RecordingPeer(source), RecordingConnection(name, self.handled)
        return InTurns(cast("Any", connection), cast("Any", peer), self.turns), peer, connection


async def looks(count: int) -> None:
    """Let the loop look at all connections so often."""
    for _ in range(count):
        await asyncio.sleep(0)


@clause("6.8", "7.12")
async def test_small_requests_and_other_sources_do_not_wait_for_the_backlog_of_one() -> None:
    node = Node()
    floods = [node.connect(f"flood {number}", "flooder")[0] for number in range(5)]
    honest, _, _ = node.connect("honest", "honest")
    for each in floods:
        each.handle(large(1, 2), now_s=0.0)
    honest.handle(small(1), now_s=0.0)
    assert node.handled == [("honest", 1)]
    honest.handle(large(2), now_s=0.0)
    await looks(2)
    assert ("honest", 2) in node.handled
    assert len(node.handled) == 3, "one large request between two looks at the connections"
    await looks(20)
    assert len(node.handled) == 12


@clause("6.8", "7.12")
async def test_a_large_request_takes_a_turn_for_each_of_its_parts() -> None:
    node = Node()
    flood, _, connection = node.connect("flood", "flooder")
    connection.parts = 4
    flood.handle([*large(1), *small(2)], now_s=0.0)
    await looks(3)
    assert node.handled == []
    await looks(1)
    assert node.handled == [("flood", 1), ("flood", 2)]


@clause("6.8")
async def test_frames_of_a_connection_keep_their_order() -> None:
    node = Node()
    one, _, _ = node.connect("one", "a")
    one.handle([*small(1), *large(2), *small(3)], now_s=0.0)
    one.handle([*small(4), *large(5), *small(6)], now_s=0.0)
    assert node.handled == [("one", 1)]
    await looks(3)
    assert [request for _, request in node.handled] == [1, 2, 3, 4, 5, 6]


@clause("6.8", "7.12")
async def test_what_waits_is_bounded_and_more_is_refused() -> None:
    node = Node()
    one, peer, _ = node.connect("one", "a")
    one.handle(large(*range(MOST_ANSWERS + 2)), now_s=0.0)
    assert peer.refused == [MOST_ANSWERS, MOST_ANSWERS + 1]
    one.handle(small(99), now_s=0.0)
    assert peer.refused[-1] == 99
    await looks(MOST_ANSWERS + 1)
    assert len(node.handled) == MOST_ANSWERS


@clause("6.8", "7.12")
async def test_the_bytes_that_wait_are_bounded_by_connection_source_and_node() -> None:
    node, limit = Node(), RelayLimits().max_uncommitted_bytes
    body = bytes(256 * 1_024)
    fillers = [RawFrame(MeshFrameType.MESH_DELETE, request, body) for request in range(MOST_ANSWERS)]
    one, peer, _ = node.connect("one", "flooder")
    one.handle(fillers, now_s=0.0)
    assert node.turns.waiting_bytes <= MAX_UNCOMMITTED_PER_CONNECTION
    assert peer.refused
    floods = [node.connect(f"flood {number}", "flooder")[0] for number in range(60)]
    for each in floods:
        each.handle(fillers, now_s=0.0)
    assert node.turns.waiting_bytes <= limit // 2
    honest, honest_peer, _ = node.connect("honest", "honest")
    honest.handle(large(1), now_s=0.0)
    assert not honest_peer.refused
    for number in range(60):
        node.connect(f"other {number}", f"other {number}")[0].handle(fillers, now_s=0.0)
    assert node.turns.waiting_bytes <= limit
    for each in (one, *floods):
        each.lost()
    assert node.turns.waiting_bytes <= limit // 2


async def test_a_connection_that_ended_or_sent_rubbish_has_no_turn() -> None:
    node = Node()
    ended, _, _ = node.connect("ended", "a")
    ended.handle(large(1), now_s=0.0)
    ended.lost()
    broken, peer, connection = node.connect("broken", "a")
    connection.fails = True
    broken.handle(large(1), now_s=0.0)
    await looks(4)
    assert node.handled == []
    assert peer.is_aborted
