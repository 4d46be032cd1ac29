"""Hands blobs of one inbox to the client, each once, and deletes them at the nodes afterwards (SPEC 7.4, 9.3).

Five nodes list and push the same blob. What was received is remembered by its hash, so that only the first one counts.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from restante.model.errors import RestanteError
from restante.model.ids import NodeId, PayloadHash
from restante.policy.mesh.time_buckets import bucket_end_ms
from restante.ports.relay_connection import StoredBlob
from restante.wire.envelope import decode_envelope, hash_sealed_bytes
from restante.wire.frames.mesh_replication import Block

MOST_REMEMBERED: Final = 100_000

Take = Callable[[Sequence[StoredBlob]], Awaitable[Collection[PayloadHash]]]
Delete = Callable[[Sequence[NodeId], int, Sequence[PayloadHash]], Coroutine[object, object, None]]


class Receiving:
    """`take` stores blobs and returns the new ones once all are on disk; `delete` sends the owner's DELETE."""

    def __init__(
        self, take: Take, *, delete: Delete, five: Callable[[int], list[NodeId]], now_ms: Callable[[], int]
    ) -> None:
        self._take = take
        self._delete = delete
        self._five = five
        self._now_ms = now_ms
        self._received: dict[PayloadHash, None] = {}
        self._turn = asyncio.Lock()
        self._held: list[Block] | None = None
        self._deleting: set[asyncio.Task[None]] = set()

    @property
    def known(self) -> Collection[PayloadHash]:
        """What was received since the start, as far as it is remembered."""
        return self._received.keys()

    async def take(
        self, bucket: int, blobs: Mapping[PayloadHash, bytes], *, delete_at: Sequence[NodeId]
    ) -> Collection[PayloadHash]:
        """Store these blobs in order; then delete them at these nodes, without waiting for their answers.

        Return those that never came before, in no earlier run either.
        """
        async with self._turn:
            new = {hashed: envelope for hashed, envelope in blobs.items() if hashed not in self._received}
            if not new:
                return ()
            at_ms = min(self._now_ms(), bucket_end_ms(bucket))
            first_seen = await self._take([StoredBlob(0, at_ms, envelope) for envelope in new.values()])
            self._remember(new)
        task = asyncio.create_task(self._delete(delete_at, bucket, list(new)))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)
        return first_seen

    @asynccontextmanager
    async def holding_pushed(self) -> AsyncIterator[None]:
        """Store what nodes push only after this block: what it reads is older (SPEC 7.5).

        Nodes push at most 2 MB before a DELETE, so little is held. After an error it is dropped; a poll finds it.
        """
        held: list[Block] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
        await self.take_pushed(held)

    async def take_pushed(self, blocks: list[Block]) -> None:
        """Store what a node pushed."""
        if self._held is not None:
            self._held.extend(blocks)
            return
        by_bucket: dict[int, dict[PayloadHash, bytes]] = {}
        for block in blocks:
            try:
                hashed = hash_sealed_bytes(decode_envelope(block.envelope).sealed)
            except RestanteError:
                continue  # the next poll verifies what the node holds
            by_bucket.setdefault(block.bucket, {})[hashed] = block.envelope
        for bucket, blobs in sorted(by_bucket.items()):
            await self.take(bucket, blobs, delete_at=self._five(bucket))

    async def close(self) -> None:
        """Wait a moment for deletes that are under way."""
        if self._deleting:
            await asyncio.wait(self._deleting, timeout=1.0)
        for task in self._deleting:
            task.cancel()

    def _remember(self, hashes: Collection[PayloadHash]) -> None:
        self._received.update(dict.fromkeys(hashes))
        while len(self._received) > MOST_REMEMBERED:
            self._received.pop(next(iter(self._received)))
