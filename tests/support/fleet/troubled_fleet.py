"""One small fleet with every kind of trouble, as journals."""

from typing import Any

from restante.crypto.identity import Identity
from restante.fleet.kernels.synthetic_evidence import signed_absence, signed_receipt
from restante.model.ids import InboxKey
from restante.model.journal import JournalKind
from restante.model.kinds import Kind, Priority
from restante.wire.inbox_keys import node_id_of
from support.fleet.journal_files import Journal, message, node_id, sealed, writer

NOON_MS = 1_767_614_400_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = NOON_MS + 3 * DAY_MS
SENDER, RECIPIENT, GOOD, BAD, SILENT = (writer(number) for number in range(1, 6))
DELIVERED, HELD, SWALLOWED, DROPPED, KEPT_TO_THE_END, LOST, DEAD, OLD_COPY, TWICE_STORED, RESEALED = range(10)
HIDDEN, SLANDERED = 10, 11
LIAR = Identity(b"l" * 32)
LIAR_ID = node_id_of(LIAR.node_key)
ANEW = 50
"""What the last one was sealed as for another session."""


def accept(sender: Journal, number: int, at_ms: int = NOON_MS, **fields: Any) -> None:
    details = {"message_kind": Kind.TEXT, "priority": Priority.NORMAL, "ttl_s": 30 * 86_400} | fields
    sender.write(JournalKind.ACCEPTED, message(number), at_ms, payload_hash=sealed(number), size_bytes=512, **details)


def confirm(sender: Journal, number: int, node: int, at_ms: int = NOON_MS) -> None:
    sender.write(JournalKind.ATTEMPTED, message(number), at_ms + 10, attempt=1)
    sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), at_ms + 40, node=node_id(node))
    sender.write(JournalKind.SENT, message(number), at_ms + 40)


def store(node: Journal, number: int, *, ttl_s: int = 30 * 86_400) -> None:
    node.write(JournalKind.STORED, None, NOON_MS + 30, payload_hash=sealed(number), size_bytes=512, ttl_s=ttl_s)


def troubled_fleet() -> list[Journal]:
    """The journals of a sender, its recipient, an honest node and one that does not keep its word."""
    sender, recipient, good, bad = (Journal(who) for who in (SENDER, RECIPIENT, GOOD, BAD))
    good.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(1))
    bad.write(JournalKind.NODE_STARTED, None, NOON_MS, node=node_id(2))
    for number, node in (
        (DELIVERED, 1),
        (HELD, 1),
        (SWALLOWED, 2),
        (DROPPED, 2),
        (KEPT_TO_THE_END, 1),
        (OLD_COPY, 1),
        (TWICE_STORED, 1),
    ):
        accept(sender, number)
        confirm(sender, number, node)
    for number in (DELIVERED, HELD, OLD_COPY, TWICE_STORED):
        store(good, number)
    store(bad, TWICE_STORED)
    bad.write(JournalKind.REAPED, None, NOON_MS + 60, payload_hash=sealed(TWICE_STORED))
    store(good, KEPT_TO_THE_END, ttl_s=3_600)
    store(bad, DROPPED)
    good.write(JournalKind.DELETED, None, NOON_MS + 90, payload_hash=sealed(DELIVERED))
    good.write(JournalKind.REAPED, None, NOON_MS + HOUR_MS + 30, payload_hash=sealed(KEPT_TO_THE_END))
    bad.write(JournalKind.REAPED, None, NOON_MS + HOUR_MS, payload_hash=sealed(DROPPED))
    bad.write(JournalKind.STORED, None, NOON_MS + 2 * HOUR_MS, payload_hash=sealed(99), size_bytes=512, ttl_s=60)
    for number in (DELIVERED, OLD_COPY):
        arrive(recipient, number)
        sender.write(JournalKind.DELIVERED, message(number), NOON_MS + 200 + number)
    recipient.write(JournalKind.ARRIVED, message(DELIVERED), NOON_MS + 130, code="duplicate")
    recipient.write(
        JournalKind.GAP_SKIPPED, None, NOON_MS + HOUR_MS, session_tag=b"t" * 16, sequence=4, last_sequence=6
    )
    recipient.write(JournalKind.SECURITY, message(DELIVERED), NOON_MS + 300, code="collision")
    accept(sender, RESEALED)
    confirm(sender, RESEALED, 1)
    store(good, RESEALED)
    good.write(JournalKind.DELETED, None, NOON_MS + 90, payload_hash=sealed(RESEALED))
    sender.write(
        JournalKind.REENCRYPTED,
        message(RESEALED),
        NOON_MS + 100,
        payload_hash=sealed(ANEW),
        size_bytes=1_024,
        sequence=0,
    )
    confirm(sender, RESEALED, 2, NOON_MS + 110)
    store(bad, ANEW)
    recipient.write(
        JournalKind.ARRIVED, message(RESEALED), NOON_MS + 190, code="new", payload_hash=sealed(ANEW), sequence=0
    )
    accept(sender, LOST, message_kind=Kind.MEDIA, priority=Priority.LOW)
    confirm(sender, LOST, 3)
    sender.write(JournalKind.EXPIRED, message(LOST), NOON_MS + DAY_MS, code="E010")
    accept(sender, DEAD)
    sender.write(JournalKind.DEAD_LETTERED, message(DEAD), NOON_MS + DAY_MS, code="attempts_exhausted", attempt=15)
    hide(sender, recipient, good)
    return [sender, recipient, good, bad]


def hide(sender: Journal, recipient: Journal, good: Journal) -> None:
    """A node that keeps no journal signs for two messages, and later a list with neither of them.

    Its receipt for the second is forged: whoever forged it cannot make it look guilty.
    """
    when: dict[str, Any] = {"key": InboxKey(b"k" * 32), "expires_at_ms": NOON_MS + 30 * DAY_MS}
    for number in (HIDDEN, SLANDERED):
        accept(sender, number)
        confirm(sender, number, 1)
        signer = LIAR if number == HIDDEN else Identity(b"x" * 32)
        receipt = signed_receipt(signer, blob=sealed(number), at_ms=NOON_MS + 30, **when)
        evidence = {f"evidence_{name}": value for name, value in receipt._asdict().items()}
        sender.write(JournalKind.DELIVERY_CONFIRMED, message(number), NOON_MS + 45, node=LIAR_ID, **evidence)
        store(good, number)
        arrive(recipient, number)
        sender.write(JournalKind.DELIVERED, message(number), NOON_MS + 200 + number)
        answer = signed_absence(LIAR, blob=sealed(number), at_ms=NOON_MS + 95, **when)
        details = {"payload_hash": sealed(number), "node": LIAR_ID, "answer": answer}
        recipient.write(JournalKind.MISSING_AT_NODE, None, NOON_MS + 101, **details)


def arrive(recipient: Journal, number: int) -> None:
    recipient.write(JournalKind.ARRIVED, message(number), NOON_MS + 100, code="new", payload_hash=sealed(number))
    recipient.write(JournalKind.RELEASED, message(number), NOON_MS + 100)
