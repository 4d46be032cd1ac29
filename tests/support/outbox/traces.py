"""Lives of messages in an outbox: what a sender's machine is told, and the facts that it asks for, written down."""

from hypothesis import strategies as st

from restante.core.outbox import step
from restante.core.outbox_events import (
    AppendJournalEvent,
    Cancelled,
    CapacityExceeded,
    DeliveryAcked,
    Event,
    Leased,
    ReadAcked,
    ReceiptAcked,
    Recovered,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.errors import LocalProtocolError
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.failures import Failure
from restante.policy.settings import Settings
from support.fleet.journal_files import Journal

Step = tuple[Event, int]
"""What happens, and how long after what happened before."""
START_MS = 1_767_225_600_000

EVENTS = st.sampled_from(
    [
        Leased(owner="a", until_ms=START_MS + 10**9),
        Leased(owner="a", until_ms=START_MS + 10**9),
        TransmitSucceeded(),
        TransmitFailed(owner="a", failure=Failure.NETWORK_TIMEOUT),
        TransmitFailed(owner="a", failure=Failure.TOO_LARGE),
        DeliveryAcked(),
        ReceiptAcked(),
        ReadAcked(),
        TimePassed(),
        CapacityExceeded(),
        Cancelled(),
        Recovered(),
    ]
)
STEPS = st.lists(st.tuples(EVENTS, st.sampled_from([0, 1, 5_000, 7_200_000, 40 * 86_400_000])), max_size=12)


def entry(message_id: MessageId, now_ms: int = START_MS) -> OutboxEntry:
    return OutboxEntry(
        message_id=message_id,
        route=Route.RELAY,
        lane="relay",
        kind=Kind.TEXT,
        payload=b"sealed",
        sealed_plaintext=b"sealed here",
        priority=Priority.NORMAL,
        created_at_ms=now_ms,
        queued_at_ms=now_ms,
        ttl_s=30 * 86_400,
        expires_at_ms=now_ms + 30 * 86_400_000,
        next_attempt_at_ms=now_ms,
    )


def after(now: OutboxEntry, event: Event, now_ms: int, journal: Journal) -> OutboxEntry:
    """The entry after the machine's step, with the facts the step asks for written down."""
    try:
        then, effects = step(now, event, now_ms=now_ms, settings=Settings())
    except LocalProtocolError:
        return now
    for effect in effects:
        if isinstance(effect, AppendJournalEvent):
            journal.write(effect.kind, now.message_id, now_ms, code=effect.code, latency_ms=effect.latency_ms)
    return then
