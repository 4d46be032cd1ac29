"""All descriptors that a node or client holds: the newest of each node, bounded per network (SPEC 7.1, 7.12)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from restante.model.ids import NodeId
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import is_valid

VALID_MS: Final = 7_200_000
"""A descriptor is valid for 2 h. With 24 h, 55 of 2,400 messages were never stored in the simulation."""
REISSUE_INTERVAL_MS: Final = 3_600_000
MOST_AHEAD_MS: Final = 600_000
DIGEST_INTERVAL_MS: Final = 600_000
DIGEST_PEERS: Final = 3
WHOLE_DIRECTORY: Final = 2_000
"""Up to this many nodes a client holds all descriptors; beyond that it uses lookups."""
MOST_PER_NETWORK: Final = 16
MOST_DESCRIPTORS: Final = 20_000
DIGEST_BYTES: Final = 32


class Phase(StrEnum):
    """What the set holds of one node."""

    ABSENT = "absent"
    VALID = "valid"
    EXPIRED = "expired"
    """Kept until the next sweep, so that an older issue can't come back."""


class Verdict(StrEnum):
    """What became of an offered descriptor."""

    NEW = "new"
    """Kept; pass it on to the nodes of the routing table."""
    KNOWN = "known"
    OLDER = "older"
    AHEAD = "ahead"
    """Issued more than 10 min ahead of network time, or valid for longer than 2 h."""
    EXPIRED = "expired"
    CROWDED = "crowded"
    """The network already has 16 descriptors, or the directory is full."""


TABLE: Final[Mapping[Phase, Mapping[Verdict, frozenset[Phase]]]] = {
    Phase.ABSENT: {
        Verdict.NEW: frozenset({Phase.VALID}),
        **dict.fromkeys((Verdict.AHEAD, Verdict.EXPIRED, Verdict.CROWDED), frozenset({Phase.ABSENT})),
    },
    Phase.VALID: {
        # A newer issue that expires now withdraws the node. It is passed on like any other.
        Verdict.NEW: frozenset({Phase.VALID, Phase.EXPIRED}),
        **dict.fromkeys((Verdict.KNOWN, Verdict.OLDER, Verdict.AHEAD, Verdict.CROWDED), frozenset({Phase.VALID})),
    },
    Phase.EXPIRED: {
        Verdict.NEW: frozenset({Phase.VALID}),
        **dict.fromkeys(
            (Verdict.KNOWN, Verdict.OLDER, Verdict.AHEAD, Verdict.EXPIRED, Verdict.CROWDED), frozenset({Phase.EXPIRED})
        ),
    },
}
"""Which verdicts are possible for a node in each phase, and the phase after them."""


class Offer(NamedTuple):
    verdict: Verdict
    replaced: NodeDescriptor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryLimits:
    """A private network lifts the limit per network."""

    per_network: int = MOST_PER_NETWORK
    descriptors: int = MOST_DESCRIPTORS


class DescriptorSet:
    """Descriptors by node id. The host has verified their signatures."""

    __slots__ = ("_digest", "_held", "_limits", "_networks")

    def __init__(self, limits: DirectoryLimits | None = None) -> None:
        self._limits = limits or DirectoryLimits()
        self._held: dict[NodeId, NodeDescriptor] = {}
        self._networks: dict[bytes, int] = {}
        self._digest = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[NodeDescriptor]:
        return iter(self._held.values())

    def get(self, node: NodeId) -> NodeDescriptor | None:
        return self._held.get(node)

    def phase_of(self, node: NodeId, *, now_ms: int) -> Phase:
        held = self._held.get(node)
        if held is None:
            return Phase.ABSENT
        return Phase.VALID if is_valid(held, now_ms=now_ms) else Phase.EXPIRED

    def judge(self, descriptor: NodeDescriptor, *, now_ms: int) -> Verdict:
        """Return what would become of the descriptor. `now_ms` is network time."""
        held = self._held.get(descriptor.node_id)
        if held is not None and held.issued_at_ms >= descriptor.issued_at_ms:
            return Verdict.KNOWN if held.issued_at_ms == descriptor.issued_at_ms else Verdict.OLDER
        if descriptor.issued_at_ms > now_ms + MOST_AHEAD_MS or _outlasts(descriptor):
            return Verdict.AHEAD
        if not is_valid(descriptor, now_ms=now_ms) and (held is None or not is_valid(held, now_ms=now_ms)):
            return Verdict.EXPIRED
        return Verdict.NEW if self._has_room(descriptor, held) else Verdict.CROWDED

    def offer(self, descriptor: NodeDescriptor, *, now_ms: int) -> Offer:
        """Keep the descriptor if it is newer than the one held."""
        verdict, held = self.judge(descriptor, now_ms=now_ms), self._held.get(descriptor.node_id)
        if verdict is not Verdict.NEW:
            return Offer(verdict)
        if held is not None:
            self._drop(held)
        self._add(descriptor)
        return Offer(Verdict.NEW, held)

    def drop(self, node: NodeId) -> None:
        """Drop the descriptor of a node that no longer counts."""
        held = self._held.get(node)
        if held is not None:
            self._drop(held)

    def drop_expired(self, *, now_ms: int) -> list[NodeDescriptor]:
        """Drop what has expired and return it. What expired within the last 2 h stays, against older issues."""
        gone = [each for each in self._held.values() if each.expires_at_ms + VALID_MS <= now_ms]
        for each in gone:
            self._drop(each)
        return gone

    def valid(self, *, now_ms: int) -> list[NodeDescriptor]:
        return [each for each in self._held.values() if is_valid(each, now_ms=now_ms)]

    @property
    def digest(self) -> bytes:
        """Return what two nodes compare to see whether they hold the same descriptors, in whatever order they came."""
        return self._digest.to_bytes(DIGEST_BYTES, "big")

    def page(self, cursor: int, size: int) -> tuple[list[NodeDescriptor], int | None]:
        """Return descriptors from a cursor on, by node id, and the next cursor; None after the last page."""
        ordered = sorted(self._held)
        chosen = [self._held[each] for each in ordered[cursor : cursor + size]]
        return chosen, cursor + size if cursor + size < len(ordered) else None

    def _has_room(self, descriptor: NodeDescriptor, held: NodeDescriptor | None) -> bool:
        own: Iterable[bytes] = held.networks if held is not None else ()
        if held is None and len(self._held) >= self._limits.descriptors:
            return False
        return all(
            self._networks.get(network, 0) < self._limits.per_network for network in descriptor.networks.difference(own)
        )

    def _add(self, descriptor: NodeDescriptor) -> None:
        self._held[descriptor.node_id] = descriptor
        self._digest ^= _mark(descriptor)
        for network in descriptor.networks:
            self._networks[network] = self._networks.get(network, 0) + 1

    def _drop(self, descriptor: NodeDescriptor) -> None:
        del self._held[descriptor.node_id]
        self._digest ^= _mark(descriptor)
        for network in descriptor.networks:
            self._networks[network] -= 1
            if not self._networks[network]:
                del self._networks[network]


def _outlasts(descriptor: NodeDescriptor) -> bool:
    """Return whether the node claims to be valid for longer than it may: it would stay in directories for good."""
    return descriptor.expires_at_ms > descriptor.issued_at_ms + VALID_MS


def _mark(descriptor: NodeDescriptor) -> int:
    hashed = hashlib.sha256(descriptor.node_id + descriptor.issued_at_ms.to_bytes(8, "big"))
    return int.from_bytes(hashed.digest(), "big")
