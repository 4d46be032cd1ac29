"""What a node knows of the mesh: directory, routing table, placement, network time, and whether its silence counts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from restante.core.directory.descriptor_set import MOST_AHEAD_MS, VALID_MS, DescriptorSet, DirectoryLimits, Verdict
from restante.core.directory.routing_table import RoutingTable, TableLimits
from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.core.replication.serving import Serving
from restante.crypto.identity import Identity
from restante.model.ids import NodeId
from restante.model.node_descriptor import Endpoint, FamilyCertificate, NodeDescriptor, Role
from restante.policy.completion import STORED_TTL_MS
from restante.policy.mesh.network_time import FEWEST_FAMILIES, NetworkTime
from restante.policy.mesh.placement import PlacementIndex, is_valid, rank_of
from restante.ports.clock import Clock

NO_ONION_KEY: Final = bytes(32)
"""Of a node that forwards no circuits."""
UNLIMITED: Final = 1_000_000


class MeshView:
    """Shared by the frame family, which answers from it, and the agent, which keeps it up to date.

    `is_private` lifts the limits per network and family for operators whose nodes share one network (NETWORK 1).
    """

    def __init__(
        self,
        identity: Identity,
        *,
        roles: Role,
        clock: Clock,
        certificate: FamilyCertificate | None = None,
        is_private: bool = False,
    ) -> None:
        self.identity = identity
        self.is_private = is_private
        self.time = NetworkTime()
        self.serving = Serving()
        self._clock = clock
        self.onion_key: Callable[[int], bytes] = lambda _now_ms: NO_ONION_KEY
        """Return the onion key that a descriptor issued now names. A node with role hop sets it."""
        self.own = NodeDescriptor(
            node_key=identity.node_key,
            onion_key=NO_ONION_KEY,
            endpoints=(),
            roles=roles,
            issued_at_ms=0,
            expires_at_ms=0,
            certificate=certificate,
        )
        limits = DirectoryLimits(per_network=UNLIMITED) if is_private else None
        self.directory = DescriptorSet(limits)
        table = TableLimits(per_network_in_bucket=UNLIMITED, per_network_in_table=UNLIMITED) if is_private else None
        self.table = RoutingTable(self.own.position, table)
        self._index: PlacementIndex | None = None
        self._index_until_ms = 0
        self._stamped_ms = 0

    @property
    def needs_families(self) -> int:
        """How many families network time and directory downloads need."""
        return 1 if self.is_private else FEWEST_FAMILIES

    def now_ms(self) -> int:
        """Return network time (SPEC 7.11)."""
        return self.time.at(self._clock.now_ms())

    def stamp_ms(self) -> int:
        """Return the time that receipts and lists of this node state. It never goes back, as network time may: a list
        that was signed before a put would look newer than its receipt, and prove that the node hides it (SPEC 13.5).

        It does go back, as it does at a restart, after network time was wrong by more than mail is stored for: a list
        of then is too new to accuse this node of mail that it stores now (`is_withheld`)."""
        now_ms = self.now_ms()
        self._stamped_ms = now_ms if self._stamped_ms > now_ms + STORED_TTL_MS else max(self._stamped_ms, now_ms)
        return self._stamped_ms

    def own_clock_ms(self) -> int:
        return self._clock.now_ms()

    def issue(self, endpoints: tuple[Endpoint, ...], *, is_leaving: bool = False) -> NodeDescriptor:
        """Sign a new descriptor of this node and hold it. One that leaves expires at the moment it is issued."""
        now_ms, last_ms = self.now_ms(), self.own.issued_at_ms
        # One that was issued while the own clock was far ahead counted nowhere.
        issued_at_ms = now_ms if last_ms > now_ms + MOST_AHEAD_MS else max(now_ms, last_ms + 1)
        unsigned = replace(
            self.own,
            endpoints=endpoints,
            onion_key=self.onion_key(self.own_clock_ms()),
            issued_at_ms=issued_at_ms,
            expires_at_ms=issued_at_ms if is_leaving else issued_at_ms + VALID_MS,
            signature=b"",
        )
        self.own = sign_descriptor(unsigned, self.identity)
        self.directory.offer(self.own, now_ms=self.now_ms())
        self._index = None
        return self.own

    def judge(self, descriptor: NodeDescriptor) -> Verdict:
        """Return what would become of a descriptor that came from outside."""
        if descriptor.node_key == self.identity.node_key:
            return Verdict.KNOWN  # only this process issues them
        return self.directory.judge(descriptor, now_ms=self.now_ms())

    def admit(self, descriptor: NodeDescriptor) -> bool:
        """Hold the descriptor of another node, which was verified and dialled; return whether it is newer."""
        verdict = self.judge(descriptor)
        if verdict is Verdict.NEW:
            self.directory.offer(descriptor, now_ms=self.now_ms())
            self._index = None
        return verdict is Verdict.NEW

    def find_valid(self, node: NodeId) -> NodeDescriptor | None:
        """Return the descriptor of a node that may be dialled now."""
        held = self.directory.get(node)
        return held if held is not None and is_valid(held, now_ms=self.now_ms()) else None

    def drop_expired(self) -> list[NodeDescriptor]:
        self._index = None
        return self.directory.drop_expired(now_ms=self.now_ms())

    def index(self) -> PlacementIndex:
        """Return the placement of this moment; it is made again when the directory changed or a node expired."""
        now_ms = self.now_ms()
        if self._index is None or now_ms >= self._index_until_ms:
            valid = self.directory.valid(now_ms=now_ms)
            self._index = PlacementIndex(valid, now_ms=now_ms)
            self._index_until_ms = min((each.expires_at_ms for each in valid), default=now_ms + VALID_MS)
        return self._index

    def rank(self, key: bytes, *, within: int) -> int | None:
        return rank_of(self.index(), key, self.own, within=within)
