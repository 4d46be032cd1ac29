"""Frame families are registered; no type has two of them."""

import ssl
from collections.abc import Sequence

import pytest

from restante.crypto.identity import Identity
from restante.model.errors import LocalProtocolError
from restante.node.client_connection import ConnectionContext
from restante.node.connection_table import ConnectionTable
from restante.node.frame_family import FamilyConnection, Peer
from restante.node.stats import RelayCounters
from restante.policy.connection_limits import RelayLimits
from restante.runtime.system import SystemEntropy
from restante.testing.deterministic import FakeClock
from restante.wire.frames.codec import RawFrame


class Family:
    def __init__(self, *types: int) -> None:
        self.frame_types = frozenset(types)

    def connect(self, peer: Peer) -> FamilyConnection:
        assert peer.is_open
        return Handler()


class Handler:
    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None: ...

    def window_opened(self) -> None: ...

    def lost(self) -> None: ...


@pytest.fixture
async def context() -> ConnectionContext:
    counters = RelayCounters()
    return ConnectionContext(
        identity=Identity(b"n" * 32),
        tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        limits=RelayLimits(),
        clock=FakeClock(),
        entropy=SystemEntropy(),
        table=ConnectionTable(RelayLimits(), counters),
        counters=counters,
    )


async def test_each_registered_family_gets_the_frames_of_its_types(context: ConnectionContext) -> None:
    context.register(Family(0x40, 0x41))
    context.register(Family(0x50))
    assert context.family_of == {0x40: 0, 0x41: 0, 0x50: 1}


async def test_a_frame_type_has_one_family(context: ConnectionContext) -> None:
    context.register(Family(0x40, 0x41))
    with pytest.raises(LocalProtocolError, match="65"):
        context.register(Family(0x41, 0x42))
    assert context.family_of == {0x40: 0, 0x41: 0}
