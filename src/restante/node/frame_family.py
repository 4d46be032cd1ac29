"""What a frame family is to a node: a handler that is registered, and the peer it answers.

A family (mailbox; later mesh and circuit) names the frame types it takes. For each connection it makes one handler,
which gets the frames of those types and is told about flow control and the end of the connection. Dependencies go one
way: connections know families by these protocols, a family knows its peers by `Peer`.
"""

from collections.abc import Sequence
from typing import Protocol

from restante.model.ids import NodeKey
from restante.model.sources import Source
from restante.policy.quota import Refusal
from restante.wire.frames.codec import Hello, RawFrame


class Peer(Protocol):
    """The client of one connection, as a family sees it. Compared by identity."""

    node_key: NodeKey | None
    """The key of a node that authenticated itself on this connection; None for a client."""

    def __hash__(self) -> int: ...

    @property
    def source(self) -> Source: ...

    @property
    def remote(self) -> tuple[str, int]:
        """Return the IP address and port of the client. Never logged, never stored."""
        ...

    @property
    def is_open(self) -> bool:
        """Return whether bytes can still be sent."""
        ...

    @property
    def can_write(self) -> bool:
        """Return whether the send buffer has space; `window_opened` tells when it has again."""
        ...

    @property
    def hello(self) -> Hello:
        """Return the greeting of this connection, whose challenge proofs sign."""
        ...

    @property
    def binding(self) -> bytes:
        """Return the TLS channel binding of this connection."""
        ...

    def send(self, raw: bytes) -> None:
        """Queue bytes; do nothing on a connection that has ended."""
        ...

    def refuse(self, request: int, refusal: Refusal, *, retry_after_ms: int = 0) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """End the connection after what was sent has been written."""
        ...

    def abort(self) -> None:
        """End the connection now."""
        ...


class FamilyConnection(Protocol):
    """A family's part of one connection."""

    def handle(self, frames: Sequence[RawFrame], *, now_s: float) -> None:
        """Handle frames of this family in their order. Raises `RestanteError` if a body breaks the format."""
        ...

    def window_opened(self) -> None:
        """The peer reads again: what waited for space in the send buffer may be sent."""
        ...

    def lost(self) -> None:
        """The connection has ended. Called once."""
        ...


class FrameFamily(Protocol):
    @property
    def frame_types(self) -> frozenset[int]:
        """Return the types of the frames that clients send to this family."""
        ...

    def connect(self, peer: Peer) -> FamilyConnection: ...
