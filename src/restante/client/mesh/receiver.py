"""Receives mail of the mesh: polls each inbox, and takes what subscribed nodes push (SPEC 7.4, 7.5).

Like a relay's receiver it begins a random time after start, one time for each inbox, so that a node can't link its
connections to those that put (SPEC 6.5).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from restante.client.mesh.directory import MeshDirectory, MeshUnknown
from restante.client.mesh.evidence import Accusation
from restante.client.mesh.inbox_nodes import InboxNodes
from restante.client.mesh.inbox_poll import InboxPoll
from restante.client.mesh.receiving import Receiving
from restante.client.places.read_results import ReadResults
from restante.client.places.reading import InboxToRead
from restante.core.inboxes.former_inboxes import FORMER_POLL_MS
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mailbox_poll import buckets as bucket_states
from restante.core.mailbox_poll.buckets import Bucket, MailStored
from restante.model.ids import NodeId, PayloadHash
from restante.model.places import MeshPlace
from restante.policy.mesh.polling import wait_ms
from restante.policy.mesh.time_buckets import current_buckets
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import StoredBlob
from restante.runtime.run_together import run_until_one_ends
from restante.wire.frames.mesh_replication import Block

ReadInbox = tuple[InboxToRead, Mapping[int, Bucket]]
"""One inbox, and its buckets as the last run left them."""


class MeshReceiver:
    """`take` stores what arrived, `save` buckets that were read, `accuse` the evidence against nodes. They return once
    that is on disk. `scores` returns the fleet's scoreboard."""

    def __init__(
        self,
        inboxes: Sequence[ReadInbox],
        directory: MeshDirectory,
        results: ReadResults,
        *,
        take: Callable[[OwnInbox, Sequence[StoredBlob]], Awaitable[Collection[PayloadHash]]],
        save: Callable[[str, Sequence[Bucket]], Awaitable[None]],
        scores: Callable[[], Mapping[NodeId, float]],
        accuse: Callable[[list[Accusation]], Awaitable[None]],
        entropy: Entropy,
        since: int | None,
        delay_s: float,
    ) -> None:
        """`since` is the first bucket that can have mail; None reads all of the last 30 days (a full sync)."""
        self._inboxes = inboxes
        self._directory = directory
        self._results = results
        self._take = take
        self._save = save
        self._scores = scores
        self._accuse = accuse
        self._entropy = entropy
        self._since = since
        self._delay_s = delay_s
        self._woken: dict[str, asyncio.Event] = {}
        self._turn_of_former = asyncio.Lock()
        self.requests: dict[str, int] = {}

    async def run(self) -> None:
        """Read until cancelled, or until `take` or `save` raises."""
        await run_until_one_ends(self._keep_reading(*each) for each in self._inboxes)

    async def _keep_reading(self, read: InboxToRead, buckets: Mapping[int, Bucket]) -> None:
        await asyncio.sleep(self._delay_s * (self._entropy.dice() + 1) / 2)
        woken = self._woken.setdefault(read.name, asyncio.Event())

        async def pushed(blocks: list[Block]) -> None:
            await receiving.take_pushed(blocks)

        def lost(buckets: set[int]) -> None:
            for number in buckets & poll.buckets.keys():
                state, now_ms = poll.buckets[number], self._directory.now_ms()
                poll.buckets[number] = bucket_states.step(state, MailStored(), now_ms=now_ms, poll_interval_ms=0)
            if not any(map(nodes.subscriptions, current_buckets(self._directory.now_ms()))):
                self._results.lost(MeshPlace(), read.name)
            woken.set()

        nodes = InboxNodes(
            read.inbox,
            read.name,
            self._directory,
            entropy=self._entropy,
            on_pushed=pushed,
            on_lost=lost,
            subscribes=not read.is_former,
        )
        take = partial(self._take, read.inbox)
        receiving = Receiving(take, delete=nodes.delete, five=nodes.five, now_ms=self._directory.now_ms)
        since = self._since if read.since is None else max(read.since, self._since or 0)
        poll = InboxPoll(
            nodes,
            receiving,
            buckets=buckets,
            since=since,
            accuse=self._accuse,
            interval_ms=FORMER_POLL_MS if read.is_former else None,
        )
        nodes.failed.add_done_callback(lambda _: woken.set())
        try:
            while True:
                woken.clear()
                async with self._turn_of_former if read.is_former else contextlib.nullcontext():
                    await self._read(read.name, poll)
                self.requests[read.name] = nodes.requests
                await self._wait(poll, woken, nodes.failed)
        finally:
            await poll.close()
            await nodes.close()
            await receiving.close()

    async def _read(self, name: str, poll: InboxPoll) -> None:
        try:
            await self._directory.ensure_fresh()
            changed = await poll.poll(scores=self._scores())
        except MeshUnknown as failed:
            self._results.failed(MeshPlace(), name, failed)
            return
        if poll.failure is None:
            self._results.reached(MeshPlace(), name)
        else:
            self._results.failed(MeshPlace(), name, poll.failure)
        if changed:
            await self._save(name, changed)

    async def _wait(self, poll: InboxPoll, woken: asyncio.Event, failed: "asyncio.Future[None]") -> None:
        """Wait until a bucket is due, a subscription was lost, or receiving failed."""
        due_ms = wait_ms(
            next_read_at_ms=poll.next_read_at_ms(), now_ms=self._directory.now_ms(), interval_ms=poll.interval_ms
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(due_ms / 1_000):
                await woken.wait()
        if failed.done():
            failed.result()
