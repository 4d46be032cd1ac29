"""Which puts, replicas and prekey records a node takes (SPEC 7.6, 7.10).

The host has checked that the inbox key follows from blinded key and bucket.
"""

from dataclasses import dataclass
from enum import StrEnum

from restante.model.ids import InboxKey
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.mesh.placement import RESPONSIBLE_WITHIN, PlacementIndex, place, rank_of
from restante.policy.mesh.time_buckets import takes_block, takes_put, takes_record


class Take(StrEnum):
    ACCEPT = "accept"
    WRONG_BUCKET = "wrong_bucket"
    WRONG_PERIOD = "wrong_period"
    NOT_RESPONSIBLE = "not_responsible"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeVerdict:
    """`better` are the nodes to name in NOT_RESPONSIBLE."""

    take: Take
    better: tuple[NodeDescriptor, ...] = ()


def check_put(index: PlacementIndex, own: NodeDescriptor, *, key: InboxKey, bucket: int, now_ms: int) -> TakeVerdict:
    if not takes_put(bucket, now_ms=now_ms):
        return TakeVerdict(take=Take.WRONG_BUCKET)
    return _check_responsibility(index, own, key)


def check_block(index: PlacementIndex, own: NodeDescriptor, *, key: InboxKey, bucket: int, now_ms: int) -> TakeVerdict:
    """A replica may be up to 30 days old."""
    if not takes_block(bucket, now_ms=now_ms):
        return TakeVerdict(take=Take.WRONG_BUCKET)
    return _check_responsibility(index, own, key)


def check_record(index: PlacementIndex, own: NodeDescriptor, *, key: bytes, period: int, now_ms: int) -> TakeVerdict:
    """The same whether its owner sends it or a neighbour: both write any period, and any key that they can sign for."""
    if not takes_record(period, now_ms=now_ms):
        return TakeVerdict(take=Take.WRONG_PERIOD)
    return _check_responsibility(index, own, InboxKey(key))


def _check_responsibility(index: PlacementIndex, own: NodeDescriptor, key: InboxKey) -> TakeVerdict:
    if rank_of(index, key, own, within=RESPONSIBLE_WITHIN) is not None:
        return TakeVerdict(take=Take.ACCEPT)
    return TakeVerdict(take=Take.NOT_RESPONSIBLE, better=tuple(place(index, key, RESPONSIBLE_WITHIN)))
