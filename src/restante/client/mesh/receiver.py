"""Receives mail of the mesh: polls both inboxes, and takes what subscribed nodes push (SPEC 7.4, 7.5).

Like a relay's receiver it begins a random time after start, one time for each inbox, so that a node can't link its
connections to those that put (SPEC 6.5).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from restante.client.mesh.connections import Use
from restante.client.mesh.directory import MeshDirectory, MeshUnknown
from restante.client.mesh.evidence import Accusation
from restante.client.mesh.inbox_nodes import InboxNodes
from restante.client.mesh.inbox_poll import InboxPoll
from restante.client.mesh.receiving import Receiving, Take
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.mailbox_poll import buckets as bucket_states
from restante.core.mailbox_poll.buckets import Bucket, MailStored
from restante.model.ids import NodeId
from restante.policy.mesh.polling import wait_ms
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.run_together import run_until_one_ends
from restante.wire.frames.mesh_replication import Block


class ReadInbox(NamedTuple):
    """One inbox, the connections it uses, and the buckets as the last run left them."""

    inbox: OwnInbox
    use: Use
    buckets: Mapping[int, Bucket]


class MeshReceiver:
    """`take` stores what arrived, `save` buckets that were read, `accuse` the evidence against nodes. They return once
    that is on disk. `scores` returns the fleet's scoreboard."""

    def __init__(
        self,
        inboxes: Sequence[ReadInbox],
        directory: MeshDirectory,
        *,
        take: Take,
        save: Callable[[Use, Sequence[Bucket]], Awaitable[None]],
        scores: Callable[[], Mapping[NodeId, float]],
        accuse: Callable[[list[Accusation]], Awaitable[None]],
        entropy: Entropy,
        since: int | None,
        delay_s: float,
    ) -> None:
        """`since` is the first bucket that can have mail; None reads all of the last 30 days (a full sync)."""
        self._inboxes = inboxes
        self._directory = directory
        self._take = take
        self._save = save
        self._scores = scores
        self._accuse = accuse
        self._entropy = entropy
        self._since = since
        self._delay_s = delay_s
        self._woken: dict[Use, asyncio.Event] = {}
        self._read_once: set[Use] = set()
        self.failure: AttemptFailed | None = None
        self.requests: dict[Use, int] = {}

    @property
    def was_connected(self) -> bool:
        """Whether each inbox was read at least once."""
        return len(self._read_once) == len(self._inboxes)

    async def run(self) -> None:
        """Read until cancelled, or until `take` or `save` raises."""
        await run_until_one_ends(self._keep_reading(each) for each in self._inboxes)

    async def _keep_reading(self, read: ReadInbox) -> None:
        await asyncio.sleep(self._delay_s * (self._entropy.dice() + 1) / 2)
        woken = self._woken.setdefault(read.use, asyncio.Event())

        async def pushed(blocks: list[Block]) -> None:
            await receiving.take_pushed(blocks)

        def lost(buckets: set[int]) -> None:
            for number in buckets & poll.buckets.keys():
                state, now_ms = poll.buckets[number], self._directory.now_ms()
                poll.buckets[number] = bucket_states.step(state, MailStored(), now_ms=now_ms, poll_interval_ms=0)
            woken.set()

        nodes = InboxNodes(read.inbox, read.use, self._directory, entropy=self._entropy, on_pushed=pushed, on_lost=lost)
        receiving = Receiving(self._take, delete=nodes.delete, five=nodes.five, now_ms=self._directory.now_ms)
        poll = InboxPoll(nodes, receiving, buckets=read.buckets, since=self._since, accuse=self._accuse)
        nodes.failed.add_done_callback(lambda _: woken.set())
        try:
            while True:
                woken.clear()
                await self._read(read.use, poll)
                self.requests[read.use] = nodes.requests
                await self._wait(poll, woken, nodes.failed)
        finally:
            await nodes.close()
            await receiving.close()

    async def _read(self, use: Use, poll: InboxPoll) -> None:
        try:
            await self._directory.ensure_fresh()
            changed = await poll.poll(scores=self._scores())
        except MeshUnknown as failed:
            self.failure = failed
            return
        self._read_once.add(use)
        self.failure = None
        if changed:
            await self._save(use, changed)

    async def _wait(self, poll: InboxPoll, woken: asyncio.Event, failed: "asyncio.Future[None]") -> None:
        """Wait until a bucket is due, a subscription was lost, or receiving failed."""
        due_ms = wait_ms(
            next_read_at_ms=poll.next_read_at_ms(),
            now_ms=self._directory.now_ms(),
            is_subscribed=poll.is_subscribed,
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(due_ms / 1_000):
                await woken.wait()
        if failed.done():
            failed.result()
