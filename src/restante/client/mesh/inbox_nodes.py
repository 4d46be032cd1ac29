"""What one inbox asks of nodes: lists, bodies, pushes and deletes, each proved under the key of its bucket (SPEC 7.4).

Every inbox has connections of its own, which never put (SPEC 6.5).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar

from restante.client.mesh.connections import CircuitBroke, NodeNotReached
from restante.client.mesh.directory import MeshDirectory
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mesh_proofs.connection_proofs import OwnProofs
from restante.core.mesh_proofs.reading import sign_delete
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, BlindedSigner, in_period
from restante.model.ids import InboxKey, NodeId, NodeKey, PayloadHash
from restante.policy.mesh.bounds import EntryTokens, delete_cost
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS, current_buckets
from restante.ports.entropy import Entropy
from restante.ports.mesh_connection import FetchAnswer, MeshConnection
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.wire.frames.mesh_reading import FetchDone, FetchEntry, MeshDelete
from restante.wire.frames.mesh_replication import Block
from restante.wire.frames.mesh_types import MAX_HASHES, MeshFrameType
from restante.wire.mesh_keys import mesh_inbox_key

MOST_SIGNERS: Final = FULL_SYNC_BUCKETS + 2
MOST_WANTED: Final = 8
"""Requests for bodies on one connection at the same time. A node answers one after the other, and refuses more than 64;
one that waits behind too many others would time out."""
CIRCUIT_TRIES: Final = 3
TOKEN_MARGIN_S: Final = 0.1
"""Requests may arrive closer to each other than they were sent."""
MOST_REFUSALS: Final = 3
LONGEST_REFUSAL_MS: Final = 2_000
"""How often, and for how long, a node may put a request off before it counts as silent."""


Answer = TypeVar("Answer")


class ListedBucket(NamedTuple):
    """What a node lists for one bucket, whether it says that the list is complete, and the answer that it signed."""

    hashes: tuple[PayloadHash, ...]
    is_complete: bool
    node: NodeKey
    done: FetchDone


Listed = dict[int, ListedBucket]


@dataclass(slots=True)
class _Asked:
    """The open connection to a node, the proofs that were sent on it, and how many requests it may still send.

    Requests for lists come first: DELETEs, of which a full sync has as many, would take each token that comes.
    """

    connection: MeshConnection
    proofs: OwnProofs
    tokens: EntryTokens
    lists: int = 0
    """Requests for lists that wait for tokens."""
    no_lists: asyncio.Event = field(default_factory=asyncio.Event)
    deleting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def wait_to_list(self, entries: int) -> None:
        """Wait until the node checks so many more signatures on this connection (SPEC 7.12)."""
        self.lists += 1
        self.no_lists.clear()
        try:
            await self._wait(entries)
        finally:
            self.lists -= 1
            if not self.lists:
                self.no_lists.set()

    async def wait_to_delete(self, hashes: int) -> None:
        async with self.deleting:  # one looks for tokens, the others wait for it
            if self.lists:
                await self.no_lists.wait()
            await self._wait(delete_cost(hashes))

    async def _wait(self, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        while not self.tokens.take(tokens, loop.time()):  # noqa: ASYNC110 - tokens come with time
            await asyncio.sleep(self.tokens.wait_ms(tokens) / 1_000 + TOKEN_MARGIN_S)


class InboxNodes:
    """`on_pushed` gets what nodes push for subscribed buckets, `on_lost` the buckets of a subscription that ended."""

    def __init__(
        self,
        inbox: OwnInbox,
        use: str,
        directory: MeshDirectory,
        *,
        entropy: Entropy,
        on_pushed: Callable[[list[Block]], Awaitable[None]],
        on_lost: Callable[[set[int]], None],
        subscribes: bool = True,
    ) -> None:
        """`use` names the connections of this inbox. Without `subscribes` nodes push nothing."""
        self.directory = directory
        self._inbox = inbox
        self._use = use
        self._entropy = entropy
        self._on_pushed = on_pushed
        self._on_lost = on_lost
        self._subscribes = subscribes
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Ends with the error of `on_pushed`, if it raises one."""
        self._signers: dict[int, tuple[BlindedSigner, InboxKey]] = {}
        self._subscribed: dict[MeshConnection, set[int]] = {}
        self._asked: dict[NodeKey, _Asked] = {}
        self._wanting: dict[NodeId, asyncio.Semaphore] = {}
        self._pushes: dict[MeshConnection, asyncio.Task[None]] = {}
        directory.connections.on_replaced(self._replaced)
        self.requests = 0
        """Requests for lists, for status and tests."""

    def key(self, bucket: int) -> InboxKey:
        """Return the key under which nodes store this inbox in the bucket."""
        return self._signer(bucket)[1]

    def subscriptions(self, bucket: int) -> int:
        """Return how many nodes push new mail of this bucket."""
        return sum(bucket in buckets for buckets in self._subscribed.values())

    async def fetch_lists(self, node: NodeId, buckets: Sequence[int]) -> Listed:
        """Return what the node lists for these buckets. Subscribes to current ones of which it is among the five.

        If the circuit to the node fails, the request goes over another one. Raises `CircuitBroke` if that fails, too.
        """
        for _ in range(CIRCUIT_TRIES - 1):
            try:
                return await self._fetch_lists(node, buckets)
            except (CircuitBroke, ConnectionLost):
                if self.directory.connections.circuits is None:
                    raise
        return await self._fetch_lists(node, buckets)

    async def _fetch_lists(self, node: NodeId, buckets: Sequence[int]) -> Listed:
        connection = await self._connection(node)
        subscribed = self._subscribed.get(connection, set())
        current = current_buckets(self.directory.now_ms())
        open_now = [each for each in buckets if each in current and each not in subscribed]
        new = [each for each in open_now if self._subscribes and node in self.five(each)]
        others = [each for each in buckets if each not in new]
        found: Listed = {}
        if others:
            await self._asked_over(connection).wait_to_list(len(others))
            proved = self._proved(connection, others, MeshFrameType.FETCH)
            found |= self._by_bucket(others, connection.node, await _patiently(partial(connection.fetch, proved)))
        if new:
            await self._asked_over(connection).wait_to_list(len(new))
            proved = self._proved(connection, new, MeshFrameType.MESH_SUBSCRIBE)
            found |= self._by_bucket(new, connection.node, await _patiently(partial(connection.subscribe, proved)))
            self._note_subscribed(connection, new)
        return found

    async def want(
        self, node: NodeId, bucket: int, hashes: Sequence[PayloadHash], *, may_ask: Callable[[], bool]
    ) -> dict[PayloadHash, bytes]:
        """Return the envelopes that the node sent, verified by hash. `may_ask` is looked at when its turn has come."""
        async with self._wanting.setdefault(node, asyncio.Semaphore(MOST_WANTED)):
            if not may_ask():
                return {}
            connection = await self._connection(node)
            blocks = await connection.want(self.key(bucket), hashes)
        return {each: block.envelope for each, block in blocks.items()}

    async def delete(self, nodes: Sequence[NodeId], bucket: int, hashes: Sequence[PayloadHash]) -> None:
        """Send the owner's DELETE to all these nodes. One that is missed keeps the blobs until they expire."""
        signer, _ = self._signer(bucket)
        for at in range(0, len(hashes), MAX_HASHES):
            part = hashes[at : at + MAX_HASHES]
            signed = sign_delete(signer, bucket, part, entropy=self._entropy.draw(SIGNING_ENTROPY_BYTES))

            sending = (self._send_delete(node, signed) for node in nodes)
            for answer in await asyncio.gather(*sending, return_exceptions=True):
                if isinstance(answer, BaseException) and not isinstance(answer, AttemptFailed):
                    raise answer

    def five(self, bucket: int) -> list[NodeId]:
        """Return the nodes that should hold this bucket of the inbox now."""
        return [each.node_id for each in self.directory.place(self.key(bucket), COPIES)]

    async def close(self) -> None:
        tasks = list(self._pushes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _signer(self, bucket: int) -> tuple[BlindedSigner, InboxKey]:
        found = self._signers.get(bucket)
        if found is None:
            inbox = self._inbox
            signer = BlindedSigner(inbox.owner, place=in_period(bucket), access_secret=inbox.access_secret)
            if len(self._signers) >= MOST_SIGNERS:
                self._signers.clear()
            found = self._signers[bucket] = signer, mesh_inbox_key(signer.public_key, bucket)
        return found

    async def _connection(self, node: NodeId) -> MeshConnection:
        descriptor = self.directory.get(node)
        if descriptor is None:
            raise NodeNotReached("the node is no longer in the directory")
        return await self.directory.connections.get(descriptor, self._use)

    async def _send_delete(self, node: NodeId, signed: MeshDelete) -> None:
        connection = await self._connection(node)
        await self._asked_over(connection).wait_to_delete(len(signed.hashes))
        await _patiently(partial(connection.delete, signed))

    def _proved(
        self, connection: MeshConnection, buckets: Sequence[int], frame_type: MeshFrameType
    ) -> list[FetchEntry]:
        self.requests += 1
        proofs = self._asked_over(connection).proofs
        return [proofs.entry(self._signer(each)[0], each, frame_type, draw=self._entropy.draw) for each in buckets]

    def _asked_over(self, connection: MeshConnection) -> _Asked:
        found = self._asked.get(connection.node)
        if found is None or found.connection is not connection:
            proofs = OwnProofs(challenge=connection.hello.challenge, connection=connection.binding)
            tokens = EntryTokens(now_s=asyncio.get_running_loop().time())
            found = self._asked[connection.node] = _Asked(connection, proofs, tokens)
        return found

    def _by_bucket(self, buckets: Sequence[int], node: NodeKey, answer: FetchAnswer) -> Listed:
        complete = {each.inbox_key: each.is_complete for each in answer.done.answers}
        return {
            bucket: ListedBucket(answer.listed[key], complete[key], node, answer.done)
            for bucket in buckets
            for key in (self.key(bucket),)
        }

    def _note_subscribed(self, connection: MeshConnection, buckets: Sequence[int]) -> None:
        self._subscribed.setdefault(connection, set()).update(buckets)
        self.directory.connections.pin(connection, self._use)
        if connection not in self._pushes:
            task = self._pushes[connection] = asyncio.create_task(self._receive_pushed(connection))
            task.add_done_callback(lambda ended: self._forget(connection, ended))

    async def _receive_pushed(self, connection: MeshConnection) -> None:
        """Hand on what the node pushes until the connection is lost; the next poll subscribes again."""
        try:
            while True:
                await self._on_pushed(await connection.next_pushed())
        except AttemptFailed:
            return

    def _replaced(self, connection: MeshConnection) -> None:
        """Subscribe elsewhere while this connection still pushes: nothing is missed between the two (SPEC 11.3)."""
        if connection in self._subscribed:
            self._on_lost(self._subscribed.pop(connection))

    def _forget(self, connection: MeshConnection, ended: asyncio.Task[None]) -> None:
        self._pushes.pop(connection, None)
        lost = self._subscribed.pop(connection, set())
        if ended.cancelled():
            return
        error = ended.exception()
        if error is None:
            self._on_lost(lost)
        elif not self.failed.done():
            self.failed.set_exception(error)


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again if the node answers that it was asked too fast. To count it as silent would lead to others, who hold no
    mail."""
    for _ in range(MOST_REFUSALS):
        try:
            return await ask()
        except AttemptFailed as refused:
            wait_ms = refused.retry_after_ms
            if wait_ms is None or wait_ms > LONGEST_REFUSAL_MS:
                raise
        await asyncio.sleep(wait_ms / 1_000 + TOKEN_MARGIN_S)
    return await ask()
