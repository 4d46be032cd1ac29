"""A simulated node: its store, its clock and its answers. The decisions are those of core/replication."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from restante.core.replication.responsibility import Take, check_block, check_put
from restante.core.replication.serving import Serving, is_complete
from restante.model.ids import InboxKey, NodeId, NodeKey, PayloadHash
from restante.model.node_descriptor import Endpoint, FamilyCertificate, NodeDescriptor, Role
from restante.policy.mesh.placement import COMPLETE_WITHIN, PlacementIndex, rank_of
from restante.testing.mesh_simulation.values import Lie

_NEVER_MS = 10**14


class PutAnswer(NamedTuple):
    take: Take
    time_ms: int


class ListAnswer(NamedTuple):
    hashes: tuple[PayloadHash, ...]
    is_complete: bool


class SimulatedNode:
    """`clock_error_ms` is what is left of the clock's error after network time."""

    __slots__ = (
        "clock_error_ms",
        "deleted",
        "descriptor",
        "died_at_ms",
        "held",
        "is_alive",
        "joined_at_ms",
        "lie",
        "lives",
        "number",
        "on_offer",
        "on_put",
        "serving",
        "side",
    )

    def __init__(
        self, number: int, *, joined_at_ms: int, family: int | None, side: int, onion_key: bytes | None = None
    ) -> None:
        """With an onion key it is a hop, too."""
        self.number = number
        self.side = side
        self.joined_at_ms = joined_at_ms
        self.died_at_ms = 0
        self.is_alive = True
        self.clock_error_ms = 0
        self.lie: Lie | None = None
        self.serving = Serving()
        self.lives = 1
        """How often it has started."""
        self.held: dict[InboxKey, dict[PayloadHash, int]] = {}
        """Blobs by key, each with its bucket."""
        self.on_put: Callable[[InboxKey], None] = lambda _key: None
        """Mail of a sender lies under this key now. Its replicator sets this and the next one."""
        self.on_offer: Callable[[NodeId, InboxKey], None] = lambda _node, _key: None
        self.deleted: dict[InboxKey, set[PayloadHash]] = {}
        operator = None if family is None else FamilyCertificate(b"f" * 28 + family.to_bytes(4, "big"), b"")
        self.descriptor = NodeDescriptor(
            node_key=NodeKey(b"simulated node".ljust(28) + number.to_bytes(4, "big")),
            onion_key=onion_key or b"",
            endpoints=(Endpoint(bytes([10 + (number >> 16), number >> 8 & 255, number & 255, 1]), 7700),),
            roles=Role.STORAGE if onion_key is None else Role.STORAGE | Role.HOP,
            issued_at_ms=joined_at_ms,
            expires_at_ms=_NEVER_MS,
            certificate=operator,
        )

    @property
    def node_id(self) -> NodeId:
        return self.descriptor.node_id

    def put(
        self, index: PlacementIndex, key: InboxKey, payload_hash: PayloadHash, *, bucket: int, now_ms: int
    ) -> PutAnswer:
        time_ms = now_ms + self.clock_error_ms
        take = check_put(index, self.descriptor, key=key, bucket=bucket, now_ms=time_ms).take
        if take is Take.ACCEPT:
            self._keep(key, payload_hash, bucket)
            self.on_put(key)
        return PutAnswer(take, time_ms)

    def take_block(
        self, index: PlacementIndex, key: InboxKey, payload_hash: PayloadHash, *, bucket: int, now_ms: int
    ) -> bool:
        time_ms = now_ms + self.clock_error_ms
        taken = check_block(index, self.descriptor, key=key, bucket=bucket, now_ms=time_ms).take is Take.ACCEPT
        if taken:
            self._keep(key, payload_hash, bucket)
        return taken

    def list(self, index: PlacementIndex, key: InboxKey) -> ListAnswer:
        if self.lie is Lie.HIDES:
            return ListAnswer((), True)
        rank = rank_of(index, key, self.descriptor, within=COMPLETE_WITHIN)
        return ListAnswer(tuple(self.held.get(key, ())), is_complete(self.serving, rank))

    def sends_true_body(self, key: InboxKey, payload_hash: PayloadHash) -> bool:
        return self.lie is not Lie.ALTERS and payload_hash in self.held.get(key, ())

    def delete(self, key: InboxKey, hashes: tuple[PayloadHash, ...]) -> None:
        held = self.held.get(key, {})
        for each in hashes:
            held.pop(each, None)
        if not held:
            self.held.pop(key, None)
        self.deleted.setdefault(key, set()).update(hashes)

    def knows(self, key: InboxKey) -> frozenset[PayloadHash]:
        """Return the hashes of a key, live or deleted: what HAVE summarises."""
        return frozenset(self.held.get(key, ())) | self.deleted.get(key, set())

    def lists_that_differ(self, other: "SimulatedNode") -> dict[InboxKey, tuple[PayloadHash, ...]]:
        """Answer HAVE: the live hashes of the keys in which the other node lacks some."""
        theirs, deleted = other.held, other.deleted
        lists = {}
        for key, hashes in self.held.items():
            known = theirs.get(key)
            if known is None or not known.keys() >= hashes.keys():
                tombstones = deleted.get(key)
                if tombstones is None or not hashes.keys() <= other.knows(key):
                    lists[key] = tuple(hashes)
        return lists

    def hear_offers(self, other: "SimulatedNode", keys: tuple[InboxKey, ...]) -> tuple[bool, ...]:
        """Answer which of the keys lack nothing here, and fetch the others."""
        lacking = other.lists_that_differ_of(self, keys)
        for key in lacking:
            self.on_offer(other.node_id, key)
        return tuple(key not in lacking for key in keys)

    def lists_that_differ_of(
        self, other: "SimulatedNode", keys: Iterable[InboxKey]
    ) -> dict[InboxKey, tuple[PayloadHash, ...]]:
        """Answer questions for single keys: the live hashes of those in which the other node lacks some."""
        lists = {key: tuple(self.held.get(key, ())) for key in keys}
        return {key: hashes for key, hashes in lists.items() if not other.knows(key).issuperset(hashes)}

    def _keep(self, key: InboxKey, payload_hash: PayloadHash, bucket: int) -> None:
        # Idempotent by key and hash, also against a deleted blob (SPEC 7.9).
        if self.lie is not Lie.DROPS and payload_hash not in self.deleted.get(key, ()):
            self.held.setdefault(key, {})[payload_hash] = bucket
