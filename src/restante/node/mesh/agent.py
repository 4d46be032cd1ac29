"""The node's own agent in the mesh: what runs by itself, how often, and how the node leaves (SPEC 7.1, 7.7, 7.9)."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from restante.core.directory.descriptor_set import DIGEST_INTERVAL_MS
from restante.core.directory.routing_table import REFRESH_INTERVAL_MS
from restante.core.replication import serving
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.node_descriptor import Endpoint
from restante.model.places import RelayPlace
from restante.node.mesh.directory_agent import DirectoryAgent
from restante.node.mesh.offers_agent import OffersAgent
from restante.node.mesh.peer_data import note_failure
from restante.node.mesh.peer_pool import PeerPool
from restante.node.mesh.replication_agent import ReplicationAgent
from restante.node.mesh.service import MeshService
from restante.policy.mesh.own_address import NEEDS_FAMILIES, OwnAddress
from restante.policy.mesh.repair import PING_INTERVAL_MS, ROUND_AFTER_BUCKET_MS
from restante.policy.mesh.time_buckets import bucket_at, bucket_end_ms
from restante.policy.settings import Settings
from restante.ports.commit_queue import CommitQueue
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.mesh.store import DamagedMeshBlob
from restante.wire.descriptors import encode_descriptor

REMEMBERED_PEERS: Final = 200
HANDOVER_CHECK_S: Final = 0.5
LAST_WRITES_S: Final = 5.0
SCRUBS_PER_PING: Final = 4
COLLECT_INTERVAL_MS: Final = 3_600_000
FIRST_RETRY_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStats:
    """Gauges first, then counters that only grow while the process runs."""

    directory_nodes: int
    table_nodes: int
    neighbours: int
    reached_nodes: int
    unchecked_nodes: int
    keys: int
    copies: int
    records: int
    open_buckets: int
    subscriptions: int
    is_serving: bool
    clock_offset_ms: int
    is_time_agreed: bool
    dials_total: int
    dials_failed_total: int
    rounds_total: int
    repairs_total: int
    blobs_repaired_total: int
    blobs_damaged_total: int
    puts_stored_total: int
    blobs_served_total: int
    blobs_deleted_total: int
    blobs_collected_total: int
    wrong_bucket_total: int
    not_responsible_total: int


class MeshAgent:
    """`run` is a maintenance task of the node; `leave` is called before the node stops."""

    def __init__(
        self,
        service: MeshService,
        commits: CommitQueue,
        *,
        settings: Settings,
        entropy: Entropy,
        bootstrap: Sequence[RelayPlace] = (),
    ) -> None:
        self.service = service
        self._commits = commits
        self._interval_ms = settings.mesh.ping_interval_ms
        self._bootstrap = [each for each in bootstrap if each.node_key != service.view.identity.node_key]
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool = PeerPool(service.view.identity, settings.relay)
        start, pool = self._start_for_peer, self._pool
        self.directory = DirectoryAgent(service.view, pool, entropy, self._bootstrap, start)
        self.replication = ReplicationAgent(service, self.directory, pool, commits, settings.mailbox, start)
        self.offers = OffersAgent(self.replication, settings.mesh.ping_interval_ms)
        self.directory.on_changed = self.replication.changed
        service.family.on_put = self.offers.put
        service.family.on_offer = self.offers.offered
        service.family.on_descriptor = self.directory.heard
        service.family.on_damaged = self._repair_damaged
        self._removing: set[int] = set()
        self._last_bucket = bucket_at(service.view.now_ms())
        self._has_joined = False
        self._failure: asyncio.Future[None] | None = None

    @property
    def is_isolated(self) -> bool:
        """Whether no other node answers, although there should be some."""
        knows_others = bool(self._bootstrap) or len(self.service.view.directory) > 1
        return knows_others and not self.directory.reached

    def listens_at(self, host: str, port: int) -> None:
        """Tell where the node listens. On all interfaces, it learns its address from those who see it."""
        ip = ip_address(host)
        self.directory.endpoints = () if ip.is_unspecified else (Endpoint(ip.packed, port).unmapped(),)
        self.directory.own_address = None
        if ip.is_unspecified:
            needs_families = min(NEEDS_FAMILIES, self.service.view.needs_families)
            self.directory.own_address = OwnAddress(needs_families=needs_families)
        self.directory.listen_port = port

    async def run(self) -> None:
        """Join, then keep directory, copies and store in order until cancelled."""
        self._failure = asyncio.get_running_loop().create_future()
        await self._join()
        self._start(self.replication.run_rounds())
        self._start(self._ping_forever())
        self._start(self._settle_in())
        self._start(self._every(DIGEST_INTERVAL_MS / PING_INTERVAL_MS, self._compare))
        self._start(self._every(1, self._look_at_the_clock))
        self._start(self._every(REFRESH_INTERVAL_MS / PING_INTERVAL_MS, self.directory.refresh))
        self._start(self._every(1 / SCRUBS_PER_PING, self._scrub))
        self._start(self._every(COLLECT_INTERVAL_MS / PING_INTERVAL_MS, self._collect))
        await self._failure

    async def leave(self) -> None:
        """Withdraw, and stay until neighbours have what this node holds, or five minutes (SPEC 7.9)."""
        view = self.service.view
        view.serving, effects = serving.step(view.serving, serving.LeaveRequested(), now_ms=view.own_clock_ms())
        for effect in effects:
            if isinstance(effect, serving.Withdraw):
                await self.directory.withdraw()
        while view.serving.phase is serving.Phase.LEAVING:
            try:
                is_over = self.is_isolated or await self.replication.has_handed_over()
            except RestanteError:
                is_over = True
            event = serving.NeighboursSynced() if is_over else serving.TimePassed()
            view.serving, _ = serving.step(view.serving, event, now_ms=view.own_clock_ms())
            if not is_over:
                await asyncio.sleep(HANDOVER_CHECK_S)

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._pool.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITES_S):
                await self.service.writes.finished()

    def stats(self) -> MeshStats:
        view, counters, holdings = self.service.view, self.service.family.counters, self.service.store.holdings()
        return MeshStats(
            directory_nodes=len(view.directory.valid(now_ms=view.now_ms())),
            table_nodes=len(view.table),
            neighbours=len(self.replication.watched),
            reached_nodes=len(self.directory.reached),
            unchecked_nodes=len(self.directory.admission.machine),
            keys=holdings.keys,
            copies=holdings.blobs,
            records=holdings.records,
            open_buckets=holdings.open_buckets,
            subscriptions=self.service.family.subscriptions,
            is_serving=view.serving.phase is serving.Phase.SERVING,
            clock_offset_ms=view.time.offset_ms,
            is_time_agreed=view.time.is_agreed,
            dials_total=self.directory.admission.dials,
            dials_failed_total=self.directory.admission.dials_failed,
            rounds_total=self.replication.rounds,
            repairs_total=self.replication.repairs,
            blobs_repaired_total=counters.blobs_repaired,
            blobs_damaged_total=counters.blobs_damaged,
            puts_stored_total=counters.puts_stored,
            blobs_served_total=counters.blobs_served,
            blobs_deleted_total=counters.blobs_deleted,
            blobs_collected_total=counters.blobs_collected,
            wrong_bucket_total=counters.wrong_bucket,
            not_responsible_total=counters.not_responsible,
        )

    async def _join(self) -> None:
        """Join the mesh, or note that it did not work: `_settle_in` and `_ping_forever` try again."""
        self._has_joined = await self.directory.join(self.service.records.peers())
        if not self._bootstrap and len(self.service.view.directory) <= 1:
            self._has_joined = True  # the first node of a mesh
        if self._has_joined:
            self.replication.request_round()

    async def _ping_forever(self) -> None:
        while True:
            if self.directory.is_due():
                self.directory.issue()
            if self._has_joined:  # a round without neighbours would make this node's silence count
                self.replication.look_for_request()
            await self.replication.ping_neighbours()
            if self.is_isolated:
                await self._join()
            is_syncing = self.service.view.serving.phase is serving.Phase.SYNCING and self._has_joined
            if is_syncing or self.replication.is_behind:
                self.replication.request_round()
            await self._pause(1)

    async def _settle_in(self) -> None:
        """Join, compare directories and sync again after 0.5, 1, 2 … s, up to the ping interval, until it worked.

        Nodes that start together miss each other at first.
        """
        wait_ms = min(FIRST_RETRY_MS, self._interval_ms)
        while True:
            await asyncio.sleep(wait_ms / 1_000)
            if self._has_joined:
                await self.directory.compare_with_some()
            else:
                await self._join()
            is_syncing = self.service.view.serving.phase is serving.Phase.SYNCING
            if self._has_joined and is_syncing:
                self.replication.request_round()
            if self._has_joined and not is_syncing and wait_ms == self._interval_ms:
                return
            wait_ms = min(2 * wait_ms, self._interval_ms)

    async def _compare(self) -> None:
        await self.directory.compare_with_some()
        good = [each for each in self.service.view.table if each.node_id in self.directory.reached]
        raws = [(each.node_id, encode_descriptor(each)) for each in good]
        now_ms = self.service.view.own_clock_ms()
        with contextlib.suppress(StoreUnusable):
            await self._commits.run(
                lambda: self.service.records.remember_peers(raws, now_ms=now_ms, most=REMEMBERED_PEERS)
            )

    async def _look_at_the_clock(self) -> None:
        """Run a round for the keys of a bucket 15 minutes after its end (decision 0029)."""
        if self.service.view.now_ms() >= bucket_end_ms(self._last_bucket) + ROUND_AFTER_BUCKET_MS:
            self._last_bucket = bucket_at(self.service.view.now_ms() - ROUND_AFTER_BUCKET_MS)
            self.replication.request_round()

    async def _scrub(self) -> None:
        with contextlib.suppress(StoreUnusable):  # a damaged page of the file; the store's health tells of it
            self.service.scrub_some()

    async def _collect(self) -> None:
        with contextlib.suppress(StoreUnusable):
            await self.service.collect_garbage()

    def _repair_damaged(self, damaged: list[DamagedMeshBlob]) -> None:
        new = [each for each in damaged if each.blob_id not in self._removing]
        self._removing |= {each.blob_id for each in new}
        if new:
            self._start(self._remove_and_repair(new))

    async def _remove_and_repair(self, damaged: list[DamagedMeshBlob]) -> None:
        with contextlib.suppress(StoreUnusable):
            await self.service.remove_damaged(damaged)
            self.replication.request_round()
        self._removing -= {each.blob_id for each in damaged}

    async def _every(self, intervals: float, operation: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `operation` now and after each so many ping intervals."""
        while True:
            await operation()
            await self._pause(intervals)

    async def _pause(self, intervals: float) -> None:
        await asyncio.sleep(self._interval_ms * intervals / 1_000)

    def _start_for_peer(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that one node caused. Its end is nobody else's."""
        self._start(work, self._ended_for_peer)

    def _start(
        self, work: Coroutine[Any, Any, None], ended: Callable[[asyncio.Task[None]], None] | None = None
    ) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended or self._ended)

    def _ended_for_peer(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            note_failure(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Let an unexpected error end `run`, and with it the node: it must not go on half alive."""
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure and not self._failure.done():
            self._failure.set_exception(task.exception() or RuntimeError())
