"""The client's directory of the mesh, and network time (SPEC 7.1, 7.11).

Up to 2,000 nodes it is what at least two of three nodes of different families name, refreshed hourly and before mail is
read after an absence. Beyond that, nodes close to a key are found by lookups. The client's file keeps descriptors, so
that the next start knows whom to ask.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from restante.client.mesh.connections import MeshConnections, Use
from restante.core import lookup
from restante.core.directory import download
from restante.core.directory.descriptor_set import (
    MOST_DESCRIPTORS,
    REISSUE_INTERVAL_MS,
    WHOLE_DIRECTORY,
    DescriptorSet,
    DirectoryLimits,
    Verdict,
)
from restante.core.directory.download import AskDirectory, CopyFailed, CopyReceived, Source
from restante.core.directory.vouchers import VOUCHERS, Named, vouched
from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.model.errors import RestanteError
from restante.model.ids import NodeId, NodeKey
from restante.model.node_descriptor import NodeDescriptor
from restante.model.places import RelayPlace
from restante.model.sources import UNKNOWN_SOURCE, source_of
from restante.policy.failures import Failure
from restante.policy.mesh.network_time import NetworkTime, PeerOffset, agree
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN, PlacementIndex, place
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.ports.mesh_connection import MeshConnector
from restante.ports.relay_connection import AttemptFailed
from restante.wire.descriptors import encode_descriptor
from restante.wire.frames.mesh_directory import MAX_PAGE
from restante.wire.inbox_keys import node_id_of

INDEX_LIFE_MS: Final = 60_000
"""Descriptors expire: the placement index is built again at least this often."""
RETRY_REFRESH_MS: Final = 10_000
LOOKUP_WANTED: Final = 20
MOST_PAGES: Final = math.ceil(WHOLE_DIRECTORY / MAX_PAGE)


class MeshUnknown(AttemptFailed):
    """No node of the mesh could be asked (E003)."""

    def __init__(self, text: str) -> None:
        super().__init__(text, failure=Failure.DHT_LOOKUP_FAILED, reached=False)


class MeshDirectory:
    """`peers` are where nodes were found last time; `save` stores descriptors for the next time."""

    def __init__(
        self,
        bootstrap: Sequence[RelayPlace],
        connect: MeshConnector,
        *,
        clock: Clock,
        entropy: Entropy,
        is_private: bool = False,
        known: Iterable[bytes] = (),
        save: Callable[[Sequence[bytes]], None] = lambda _: None,
    ) -> None:
        self.connections = MeshConnections(connect, on_greeted=self._greeted)
        self.time = NetworkTime()
        self.families_asked = 0
        self._bootstrap = tuple(bootstrap)
        self._clock = clock
        self._entropy = entropy
        self._is_private = is_private
        self._needs_families = 1 if is_private else download.FAMILIES
        self._save = save
        self._set = DescriptorSet(DirectoryLimits(per_network=1 << 20) if is_private else None)
        self._verified: dict[bytes, NodeDescriptor] = {}
        self._peers: dict[NodeId, NodeDescriptor] = {}
        self._unvouched: set[NodeId] = set()
        """Nodes that count because too few families answered, until enough of them do."""
        self._vouchers_needed = 1
        self._offsets: dict[NodeKey, int] = {}
        self._index: PlacementIndex | None = None
        self._index_until_ms = 0
        self._refreshed_at_ms: int | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._take(Named(b"", self.verified(known)))

    @property
    def is_configured(self) -> bool:
        """Whether any node is known that could be asked."""
        return bool(self._bootstrap or self._peers)

    def now_ms(self) -> int:
        """Return network time."""
        return self.time.at(self._clock.now_ms())

    def valid(self) -> list[NodeDescriptor]:
        return self._set.valid(now_ms=self.now_ms())

    def get(self, node: NodeId) -> NodeDescriptor | None:
        return self._set.get(node)

    def verified(self, raws: Iterable[bytes]) -> tuple[NodeDescriptor, ...]:
        """Return the descriptors whose signatures are valid. None of them counts for that."""
        found = []
        for raw in raws:
            with contextlib.suppress(RestanteError):
                descriptor = self._verified.get(raw) or verify_descriptor(raw)
                self._verified[raw] = self._peers[descriptor.node_id] = descriptor
                found.append(descriptor)
        if len(self._verified) > 2 * WHOLE_DIRECTORY:
            self._verified.clear()
        if len(self._peers) > 2 * MOST_DESCRIPTORS:
            self._peers = {each.node_id: each for each in self._set}
        return tuple(found)

    def suggest(self, answers: Iterable[Named]) -> None:
        """Keep better nodes for a key, if enough of those that were asked name them (SPEC 7.10)."""
        self._take(*answers)

    def family_of(self, node: NodeId) -> bytes:
        known = self._peers.get(node)
        return bytes(node) if known is None else known.family

    def parties_of(self, exit_id: NodeId | None) -> frozenset[bytes]:
        """Return who could have made up what this exit passed on, besides the node itself: it, and its family."""
        if exit_id is None:
            return frozenset()
        return frozenset({exit_id} if self._is_private else {exit_id, self.family_of(exit_id)})

    def place(self, key: bytes, count: int = RESPONSIBLE_WITHIN) -> list[NodeDescriptor]:
        """Return the nodes that store what lies under this key, by the descriptors that are held (SPEC 7.3)."""
        now_ms = self.now_ms()
        if self._index is None or now_ms >= self._index_until_ms:
            self._index = PlacementIndex(self._set, now_ms=now_ms)
            self._index_until_ms = now_ms + INDEX_LIFE_MS
        return place(self._index, key, count)

    def storage_nodes(self) -> int:
        self.place(bytes(32), 1)
        return 0 if self._index is None else len(self._index)

    async def find(self, key: bytes, count: int = RESPONSIBLE_WITHIN) -> list[NodeDescriptor]:
        """Return the nodes for this key; ask the mesh for them if it is too large for a whole directory."""
        await self.ensure_fresh()
        if len(self._set) >= WHOLE_DIRECTORY:
            await self.look_up(key)
        found = self.place(key, count)
        if not found:
            raise MeshUnknown("no storage node of the mesh is known")
        return found

    async def ensure_fresh(self, *, within_ms: int = REISSUE_INTERVAL_MS) -> None:
        """Refresh the directory unless that was done within this time. Raises `MeshUnknown` if no node is known."""
        now_ms = self._clock.now_ms()
        last_ms = self._refreshed_at_ms
        if last_ms is not None and 0 <= now_ms - last_ms < within_ms and self.valid():
            return
        await self.refresh()
        if not self.valid():
            raise MeshUnknown("none of the known mesh nodes answers")

    async def refresh(self) -> None:
        """Download the directory from nodes of three families. One download serves all callers."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._refresh_ended)
        await asyncio.shield(self._refreshing)

    async def look_up(self, key: bytes) -> list[NodeDescriptor]:
        """Ask ever closer nodes for the closest to a key (SPEC 7.1); keep what they send. Return the closest."""
        contacts = [each.node_id for each in sorted(self.valid(), key=lambda node: node.position)]
        state, effects = lookup.start(key, contacts, want=LOOKUP_WANTED)
        named: list[Named] = []
        asking: dict[asyncio.Task[lookup.Event], NodeId] = {}
        found: tuple[NodeId, ...] = ()
        while True:
            for effect in effects:
                if isinstance(effect, lookup.Finish):
                    found = effect.closest
                else:
                    asking[asyncio.create_task(self._find_node(effect.node, key, named))] = effect.node
            if state.phase is not lookup.Phase.SEARCHING or not asking:
                break
            done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            effects = ()
            for task in done:
                del asking[task]
                state, more = lookup.step(state, task.result())
                effects += more
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._take(*named)
        return [each for each in map(self._set.get, found) if each is not None]

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self.connections.close()

    async def _refresh(self) -> None:
        places = self._sources()
        sources = [Source(node_id_of(each.node_key), _family(each), _networks(each)) for each in places]
        by_id = {node_id_of(each.node_key): each for each in places}
        copies: list[Named] = []
        state, effects = download.start(sources, needs_families=self._needs_families)
        copying: set[asyncio.Task[CopyReceived | CopyFailed]] = set()
        while True:
            for effect in effects:
                if isinstance(effect, AskDirectory):
                    copying.add(asyncio.create_task(self._copy(by_id[effect.node], copies)))
            if not copying:
                break
            done, copying = await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
            effects = ()
            for task in done:
                state, more = download.step(state, task.result())
                effects += more
        self.families_asked = len(state.families)
        self._vouchers_needed = VOUCHERS if self.families_asked >= download.FAMILIES else 1
        self._take(*copies)
        self._set.drop_expired(now_ms=self.now_ms())
        now_ms = self._clock.now_ms()
        # With too few families the next use tries again soon.
        is_whole = state.phase is download.Phase.WHOLE
        self._refreshed_at_ms = now_ms if is_whole else now_ms - REISSUE_INTERVAL_MS + RETRY_REFRESH_MS
        if state.families:
            self._save([encode_descriptor(each) for each in self.valid()[:WHOLE_DIRECTORY]])

    def _take(self, *answers: Named) -> None:
        """Keep what counts. Once enough families answer, nodes go that counted only because they did not."""
        needs_more = self._vouchers_needed > 1
        for each in vouched(answers, needed=self._vouchers_needed):
            is_new = self._set.offer(each, now_ms=self.now_ms()).verdict is Verdict.NEW
            if needs_more:
                self._unvouched.discard(each.node_id)
            elif is_new:
                self._unvouched.add(each.node_id)
        if needs_more:
            for node in self._unvouched:
                self._set.drop(node)
            self._unvouched.clear()
        self._index = None

    def _refresh_ended(self, _task: asyncio.Task[None]) -> None:
        self._refreshing = None

    def _sources(self) -> list[NodeDescriptor | RelayPlace]:
        """Return whom to ask: nodes that count, in random order, bootstrap nodes, then nodes that were only named."""
        known = [self._peers[each] for each in sorted(self._peers)]
        for at in range(len(known) - 1, 0, -1):
            other = int.from_bytes(self._entropy.draw(4), "big") % (at + 1)
            known[at], known[other] = known[other], known[at]
        have = {each.node_key for each in known}
        first = [each for each in known if self._set.get(each.node_id) is not None]
        rest = [each for each in known if self._set.get(each.node_id) is None]
        return [*first, *[each for each in self._bootstrap if each.node_key not in have], *rest]

    async def _copy(self, node: NodeDescriptor | RelayPlace, copies: list[Named]) -> CopyReceived | CopyFailed:
        node_id, cursor = node_id_of(node.node_key), 0
        named: list[NodeDescriptor] = []
        held, digest = list(self._set), self._set.digest
        try:
            connection = await self.connections.get(node, Use.DIRECTORY)
            for _ in range(MOST_PAGES):  # a node that sends small pages does not hold us
                page = await connection.sync_directory(cursor, digest)
                if page.is_last and not page.descriptors and page.digest == digest:
                    named = held  # it has what we have
                named += self.verified(page.descriptors)
                if page.is_last:
                    break
                cursor = page.next_cursor
        except AttemptFailed:
            return CopyFailed(node_id)
        finally:
            # A node gives one whole copy an hour to a connection (SPEC 7.12): the next one needs another.
            await self.connections.drop(node.node_key, Use.DIRECTORY)
        copies.append(Named(_family(node), tuple(named)))
        return CopyReceived(node_id)

    async def _find_node(self, node: NodeId, key: bytes, named: list[Named]) -> lookup.Event:
        descriptor = self._set.get(node) or self._peers.get(node)
        if descriptor is None:
            return lookup.AskFailed(node)
        try:
            connection = await self.connections.get(descriptor, Use.LOOKUP)
            answer = await connection.find_node(key, LOOKUP_WANTED)
        except AttemptFailed:
            return lookup.AskFailed(node)
        near = self.verified(answer.descriptors)
        # A node that answered exists: it vouches for itself as often as needed.
        itself = [Named(bytes([number]), (descriptor,)) for number in range(VOUCHERS)]
        named += [Named(descriptor.family, near), *itself]
        return lookup.NodesAnswered(node, tuple(each.node_id for each in near))

    def _greeted(self, node: NodeKey, time_ms: int) -> None:
        """Take a node's time from its greeting, and agree on network time again."""
        self._offsets.pop(node, None)
        self._offsets[node] = time_ms - self._clock.now_ms()
        peers = [PeerOffset(self.family_of(node_id_of(key)), offset) for key, offset in reversed(self._offsets.items())]
        self.time = agree(peers, needs_families=self._needs_families)


def _networks(node: NodeDescriptor | RelayPlace) -> frozenset[bytes]:
    if isinstance(node, NodeDescriptor):
        return node.networks
    source = source_of(node.host)
    return frozenset({bytes(source)} if source != UNKNOWN_SOURCE else ())


def _family(node: NodeDescriptor | RelayPlace) -> bytes:
    return node.family if isinstance(node, NodeDescriptor) else bytes(node.node_key)
