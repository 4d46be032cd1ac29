"""A client's file as an operator meets it: messages of every state, made by the store itself a while ago."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restante.core.outbox_events import (
    Cancelled,
    DeliveryAcked,
    Leased,
    ReadAcked,
    ReceiptAcked,
    TimePassed,
    TransmitFailed,
    TransmitSucceeded,
)
from restante.model.ids import MessageId, show_message_id
from restante.model.kinds import Kind, Priority
from restante.model.states import Route
from restante.policy.failures import Failure
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from support.outbox.entries import DAY_MS, accept, entry
from support.sqlite.files import ClientFile, open_client_file

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
OWNER = "drain-1"

NAMES = (
    "pending",
    "behind",
    "sending",
    "sent",
    "retried",
    "exhausted",
    "overdue",
    "permanent",
    "cancelled",
    "tombstone",
    "delivered",
    "read",
    "discarded",
)


def message_id(name: str) -> MessageId:
    """A UUIDv4 that tells names apart in its first eight digits."""
    raw = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    raw[6] = 0x40 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return MessageId(bytes(raw))


def shown(name: str) -> str:
    return show_message_id(message_id(name))


def short(name: str) -> str:
    return shown(name)[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """Sends messages through the store; `now_ms` is when the operator looks at them."""

    file: ClientFile
    now_ms: int

    @property
    def outbox(self) -> SqliteOutbox:
        return self.file.outbox

    def send(self, name: str, *, ago_ms: int, life_ms: int = 2 * DAY_MS, **changes: Any) -> MessageId:
        at_ms = self.now_ms - ago_ms
        made = entry(
            0,
            message_id=message_id(name),
            payload=f"sealed bytes of {name}".encode(),
            created_at_ms=at_ms,
            queued_at_ms=at_ms,
            next_attempt_at_ms=at_ms,
            ttl_s=life_ms // 1_000,
            expires_at_ms=at_ms + life_ms,
            **{"route": Route.MESH, "lane": name, **changes},
        )
        accept(self.outbox, made, now_ms=at_ms)
        return made.message_id

    def tell(self, name: str, event: Any, *, ago_ms: int) -> None:
        self.outbox.apply(message_id(name), event, now_ms=self.now_ms - ago_ms)

    def lease(self, name: str, *, ago_ms: int) -> None:
        self.tell(name, Leased(owner=OWNER, until_ms=self.now_ms - ago_ms + MINUTE_MS), ago_ms=ago_ms)

    def fail(self, name: str, failure: Failure, *, ago_ms: int) -> None:
        self.lease(name, ago_ms=ago_ms)
        self.tell(name, TransmitFailed(owner=OWNER, failure=failure), ago_ms=ago_ms)


def fill(path: Path, *, now_ms: int) -> None:
    """One message of each name in NAMES, each where its name says."""
    file = open_client_file(path)
    filler = Filler(file=file, now_ms=now_ms)
    _in_flight(filler)
    _dead(filler)
    _delivered(filler)
    file.database.close()


def _in_flight(filler: Filler) -> None:
    filler.send("pending", ago_ms=5 * MINUTE_MS, route=Route.UPSTREAM, lane="relay-1")
    filler.send("behind", ago_ms=4 * MINUTE_MS, route=Route.UPSTREAM, lane="relay-1", priority=Priority.LOW)
    filler.send("sending", ago_ms=10 * MINUTE_MS, kind=Kind.READ_RECEIPT, priority=Priority.HIGH)
    filler.lease("sending", ago_ms=0)
    filler.send("sent", ago_ms=HOUR_MS)
    filler.lease("sent", ago_ms=HOUR_MS)
    # Late in its lease: for most of a minute, however busy the machine is, more than 23 h are left of a day.
    filler.tell("sent", TransmitSucceeded(), ago_ms=HOUR_MS - 55_000)
    filler.tell("sent", DeliveryAcked(), ago_ms=HOUR_MS - 56_000)
    filler.send("retried", ago_ms=2 * HOUR_MS, kind=Kind.MEDIA, lane="rst1" + "q" * 58)
    filler.fail("retried", Failure.NETWORK_TIMEOUT, ago_ms=2 * HOUR_MS)
    filler.fail("retried", Failure.RECIPIENT_KEY_NOT_FOUND, ago_ms=HOUR_MS // 2)


def _dead(filler: Filler) -> None:
    filler.send("exhausted", ago_ms=20 * HOUR_MS)
    for attempt in range(15):
        filler.fail("exhausted", Failure.NETWORK_TIMEOUT, ago_ms=(19 - attempt) * HOUR_MS)
    filler.send("overdue", ago_ms=3 * HOUR_MS, priority=Priority.HIGH)
    filler.tell("overdue", TimePassed(connected_ms=HOUR_MS), ago_ms=2 * HOUR_MS)
    filler.send("permanent", ago_ms=HOUR_MS)
    filler.fail("permanent", Failure.TOO_LARGE, ago_ms=HOUR_MS)
    filler.send("cancelled", ago_ms=3 * HOUR_MS)
    filler.tell("cancelled", Cancelled(), ago_ms=2 * HOUR_MS)
    filler.send("tombstone", ago_ms=3 * HOUR_MS, life_ms=HOUR_MS)
    filler.tell("tombstone", TimePassed(), ago_ms=2 * HOUR_MS)
    filler.send("discarded", ago_ms=3 * HOUR_MS)
    filler.tell("discarded", Cancelled(), ago_ms=2 * HOUR_MS)
    filler.outbox.discard(message_id("discarded"), now_ms=filler.now_ms - HOUR_MS)


def _delivered(filler: Filler) -> None:
    for name, event in (("delivered", ReceiptAcked()), ("read", ReadAcked())):
        filler.send(name, ago_ms=HOUR_MS)
        filler.lease(name, ago_ms=HOUR_MS)
        filler.tell(name, TransmitSucceeded(), ago_ms=HOUR_MS - 1_000)
        filler.tell(name, event, ago_ms=HOUR_MS - 4_000)
