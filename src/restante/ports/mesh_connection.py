"""A connection to one node of the mesh, as a client sees it.

Every call raises `AttemptFailed` when the node refuses, does not answer in time or sends what does not verify, and
`ConnectionLost` once the connection has ended. A connection that proves an inbox never puts (SPEC 6.5).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from restante.model.ids import BlindedKey, InboxKey, NodeId, NodeKey, PayloadHash
from restante.model.places import RelayPlace
from restante.wire.frames.codec import Hello
from restante.wire.frames.mesh_directory import DirectoryPage, Nodes
from restante.wire.frames.mesh_reading import FetchDone, FetchEntry, MeshDelete
from restante.wire.frames.mesh_replication import Block
from restante.wire.frames.mesh_storage import NotResponsible, Record, WrongBucket
from restante.wire.storage_receipts import StorageReceipt

MAX_WANTED_AT_ONCE: Final = 64
"""Blobs in one WANT. The answer is held in memory: at most 17 MB, about 340 KB of ordinary mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What one node lists for the keys of a FETCH, in the order of its numbers. `done` is its verified signature over
    exactly these lists."""

    listed: Mapping[InboxKey, tuple[PayloadHash, ...]]
    done: FetchDone


class UnsignedAnswer(NamedTuple):
    """An answer to a put that the node did not sign, and the exit that passed it on: None if it came directly."""

    frame: WrongBucket | NotResponsible
    exit_id: NodeId | None = None


PutAnswer = StorageReceipt | tuple[UnsignedAnswer, ...]
"""Each exit that was asked may have brought another unsigned answer."""


class MeshConnection(Protocol):
    @property
    def node(self) -> NodeKey: ...

    @property
    def hello(self) -> Hello:
        """The node's greeting: its challenge, which proofs sign, and its time."""
        ...

    @property
    def binding(self) -> bytes:
        """What proofs sign to be of no use on another connection."""
        ...

    async def find_node(self, target: bytes, want: int) -> Nodes: ...

    async def sync_directory(self, cursor: int, digest: bytes) -> DirectoryPage: ...

    async def put(
        self, blinded: BlindedKey, bucket: int, envelope: bytes
    ) -> StorageReceipt | WrongBucket | NotResponsible: ...

    async def put_record(self, record: bytes) -> Record | NotResponsible: ...

    async def get_record(self, key: bytes) -> bytes | None: ...

    async def fetch(self, entries: Sequence[FetchEntry]) -> FetchAnswer: ...

    async def subscribe(self, entries: Sequence[FetchEntry]) -> FetchAnswer: ...

    async def next_pushed(self) -> list[Block]: ...

    async def want(self, key: InboxKey, hashes: Sequence[PayloadHash]) -> dict[PayloadHash, Block]: ...

    async def delete(self, delete: MeshDelete) -> None: ...

    async def lost(self) -> None: ...

    async def close(self) -> None: ...


MeshConnector = Callable[[RelayPlace], Awaitable[MeshConnection]]
"""Connects to the node with this key at this host and port; refuses any other node that answers there."""
