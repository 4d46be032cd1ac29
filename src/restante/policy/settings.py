"""All settings of the policies, one class per section.

A section's name here is its name in the configuration file and in the error for a value out of range.
"""

from dataclasses import dataclass, field

from restante.policy.ack_batching import AckBatching
from restante.policy.capacity import OutboxLimits
from restante.policy.circuits.limits import CircuitLimits
from restante.policy.connection_limits import RelayLimits
from restante.policy.dead_letters import DeadLetterRetention
from restante.policy.dedup import DedupLimits
from restante.policy.mesh.intervals import MeshIntervals
from restante.policy.quota import MailboxQuota
from restante.policy.reorder_limits import OrderLimits
from restante.policy.retry import ChannelSchedule, RetrySchedule
from restante.policy.shipping import JournalShipping


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, by section; each default is the one of SPEC. `restante config` lists them."""

    retry: RetrySchedule = field(default_factory=RetrySchedule)
    channel_retry: ChannelSchedule = field(default_factory=ChannelSchedule)
    outbox: OutboxLimits = field(default_factory=OutboxLimits)
    dead_letters: DeadLetterRetention = field(default_factory=DeadLetterRetention)
    mailbox: MailboxQuota = field(default_factory=MailboxQuota)
    dedup: DedupLimits = field(default_factory=DedupLimits)
    order: OrderLimits = field(default_factory=OrderLimits)
    acks: AckBatching = field(default_factory=AckBatching)
    relay: RelayLimits = field(default_factory=RelayLimits)
    mesh: MeshIntervals = field(default_factory=MeshIntervals)
    circuits: CircuitLimits = field(default_factory=CircuitLimits)
    journal: JournalShipping = field(default_factory=JournalShipping)
