"""Turn the behaviour of a synthetic fleet into journal events, a batch of messages at a time.

A message is stored at one node. If that node lies, a second one stores it too, as in the mesh, and the recipient
journals what the first did not list. Events after the end of the period are left out: their messages are in flight.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from restante.fleet.kernels.synthetic_dice import Flags, Longs
from restante.fleet.kernels.synthetic_evidence import signed_absence, signed_receipt
from restante.fleet.kernels.synthetic_fleet import (
    CAUSE_CODES,
    DAY_MS,
    KIND_SHARES,
    KINDS,
    SITES,
    Fleet,
    Scenario,
    ttl_s,
)
from restante.model.error_codes import Code
from restante.model.ids import InboxKey, PayloadHash
from restante.model.journal import JournalKind
from restante.model.kinds import KIND_RULES
from restante.model.states import Verdict
from restante.policy.reorder_limits import OrderLimits
from restante.wire.journal_schema import FIELDS

_TYPES: Final = {"binary": pa.binary(), "int32": pa.int32(), "int64": pa.int64(), "string": pa.string()}
UNNUMBERED: Final = pa.schema([(field.name, _TYPES[field.type]) for field in FIELDS if field.name != "event_id"])
"""The journal's columns without the event's number: that follows from all events of a writer."""

RECEIPT_COLUMNS: Final = tuple(field.name for field in FIELDS if field.name.startswith("evidence_"))
TIMEOUT_MS: Final = 9_000  # until a sender gives up a node that is down
BACKOFF_MS: Final = 1_000
EXPIRED_TTL_S: Final = 86_400  # of messages that expire; the usual TTL is longer than most periods
_PERMANENT: Final = np.array([code in (Code.RECIPIENT_NOT_FOUND, Code.MESSAGE_TOO_LARGE) for code in CAUSE_CODES])
_EXPIRED: Final = CAUSE_CODES.index(Code.TTL_EXPIRED)
_SIZES: Final = np.array([size for _, _, size in KIND_SHARES], dtype=np.int64)
_PRIORITIES: Final = np.array([int(KIND_RULES[kind].priority) for kind in KINDS], dtype=np.int32)
_KIND_WORDS: Final = pa.array([kind.value for kind in KINDS])
_CAUSE_WORDS: Final = pa.array([code.value for code in CAUSE_CODES])


def journals_of(scenario: Scenario, messages: Longs, *, only_arrivals: bool = False) -> Any:
    """Return the events about these messages. The batch with message 0 also has the starts of the nodes."""
    made = _Batch(Fleet(scenario), messages)
    parts = list(made.arrived())
    if not only_arrivals:
        parts += [*made.sent(), *made.stored(), *made.released()]
        if len(messages) and messages.min() == 0:
            parts.append(_node_starts(made.fleet))
    return pa.concat_tables(parts)


class _Batch:
    """The times of some messages on the way from sender to recipient, by a clock that is right."""

    def __init__(self, fleet: Fleet, message: Longs) -> None:
        scenario, dice = fleet.scenario, fleet.dice
        self.fleet, self.message = fleet, message
        self.session, self.sequence = message % scenario.sessions, message // scenario.sessions
        self.sender, self.recipient = fleet.sender(self.session), fleet.recipient(self.session)
        self.kind = fleet.kind(message)
        self.cause = fleet.cause(message)
        self.is_lost = dice.meets("loss", message, scenario.lost)
        self.accepted = fleet.accepted_at(self.session, self.sequence)
        self.tried = self.accepted + 5 + (35 * dice.uniform("start", message)).astype(np.int64)
        first = fleet.node(message)
        self.was_down = fleet.is_down(first, self.tried) & ~self.is_lost
        self.node = np.where(self.was_down, fleet.next_node(first), first)
        self.is_lied_about = fleet.lies_about(self.node, message) & ~self.is_lost
        self.holder = np.where(self.is_lied_about, fleet.next_node(self.node), self.node)
        backoff = BACKOFF_MS + (1_000 * dice.uniform("backoff", message)).astype(np.int64)
        self.tried_again = self.tried + TIMEOUT_MS + backoff
        self.put = np.where(self.was_down, self.tried_again, self.tried)
        # The median answer of a node is its own; the fastest takes 20 ms, the slowest 110.
        pace = 20 + 90 * dice.uniform("pace", self.node)
        self.answer_ms = dice.lognormal("answer", message, median=pace, sigma=0.5)
        self.confirmed = self.put + 2 + self.answer_ms
        on_the_way = dice.lognormal("transit", message, median=250, sigma=0.7)
        overtaken = np.where(dice.meets("reorder", message, scenario.reordered), fleet.spacing_ms * 3 // 2, 0)
        came = self.confirmed + 3 + on_the_way
        back = fleet.returns_at(self.recipient, came)
        self.arrival = np.where(back > came, back + on_the_way, came) + overtaken
        self.receipt = self.arrival + 5 + dice.lognormal("receipt", message, median=120, sigma=0.6)
        self.message_id = dice.uuid4("message", message)
        self.payload_hash = dice.binary("payload", message, 32)
        self.ttl_s = np.where(self.is_lost & (self.cause == _EXPIRED), EXPIRED_TTL_S, ttl_s(self.kind))

    def sent(self) -> Iterator[Any]:
        """Events of senders."""
        sent, lost, down, lied = ~self.is_lost, self.is_lost, self.was_down, self.is_lied_about
        is_expired = lost & (self.cause == _EXPIRED)
        is_retried = lost & ~_PERMANENT[self.cause]
        first, second = {"attempt": 1}, {"attempt": 2}
        unreachable = {"code": Code.NETWORK_UNREACHABLE.value}
        yield self._of_sender(JournalKind.ACCEPTED, self.accepted, priority=_PRIORITIES[self.kind], ttl_s=self.ttl_s)
        yield self._of_sender(JournalKind.ATTEMPTED, self.tried, None, **first)
        yield self._of_sender(JournalKind.RETRIED, self.tried + TIMEOUT_MS, down, **first, **unreachable)
        yield self._of_sender(JournalKind.ATTEMPTED, self.tried_again, down, **second)
        receipt = {"node": self._nodes(self.node), "latency_ms": self.answer_ms, **self._receipts()}
        yield self._of_sender(JournalKind.DELIVERY_CONFIRMED, self.confirmed, sent, **receipt)
        replaced = {"node": self._nodes(self.holder), "latency_ms": self.answer_ms + 1}
        yield self._of_sender(JournalKind.DELIVERY_CONFIRMED, self.confirmed + 1, lied, **replaced)
        yield self._of_sender(JournalKind.SENT, self.confirmed + 2, sent)
        took = {"latency_ms": self.receipt - self.accepted}
        yield self._of_sender(JournalKind.DELIVERED, self.receipt, sent, **took)
        cause = {"code": _CAUSE_WORDS.take(pa.array(self.cause))}
        yield self._of_sender(JournalKind.RETRIED, self.tried + TIMEOUT_MS, is_retried, **first, **unreachable)
        yield self._of_sender(JournalKind.EXPIRED, self.accepted + self.ttl_s * 1_000, is_expired, **cause)
        given_up = self.tried + np.where(is_retried, 6 * TIMEOUT_MS, 60)
        again = is_retried & ~is_expired
        yield self._of_sender(JournalKind.ATTEMPTED, self.tried_again, again, **second)
        yield self._of_sender(JournalKind.DEAD_LETTERED, given_up, lost & ~is_expired, **cause)

    def stored(self) -> Iterator[Any]:
        """Events of nodes."""
        was_stored = ~self.is_lost
        columns = {
            "writer": self.fleet.dice.binary("node writer", self.holder, 16),
            "node": self._nodes(self.holder),
            "payload_hash": self.payload_hash,
            "size_bytes": _SIZES[self.kind],
        }
        stored_at = self.put + 1 + self.answer_ms // 2
        yield self._events(JournalKind.STORED, stored_at, was_stored, {**columns, "ttl_s": self.ttl_s})
        yield self._events(JournalKind.SERVED, self.arrival - 1, was_stored, columns)

    def arrived(self) -> Iterator[Any]:
        """Arrivals at recipients: the first copy, repeated ones and forged ones."""
        scenario, dice, spacing = self.fleet.scenario, self.fleet.dice, self.fleet.spacing_ms
        came = ~self.is_lost
        forged = dice.binary("forged", self.message, 32)
        first = {"sequence": self.sequence, "message_kind": _KIND_WORDS.take(pa.array(self.kind))}
        yield self._of_recipient(JournalKind.ARRIVED, self.arrival, came, code=Verdict.NEW.value, **first)
        # A repeated copy is recognised by its bytes and not opened, so its number is not read.
        repeated = came & dice.meets("duplicate", self.message, scenario.duplicates)
        later = self.arrival + 2 * spacing + 1
        yield self._of_recipient(JournalKind.ARRIVED, later, repeated, code=Verdict.DUPLICATE.value)
        collided = came & dice.meets("collision", self.message, scenario.collisions)
        collision = {"code": Verdict.COLLISION.value, "payload_hash": forged}
        yield self._of_recipient(JournalKind.ARRIVED, later + 1, collided, **collision)

    def released(self) -> Iterator[Any]:
        """What recipients did with arrivals: releases, skipped gaps, absences at a node that lied."""
        number = {"sequence": self.sequence}
        kinds = {"message_kind": _KIND_WORDS.take(pa.array(self.kind))}
        yield self._of_recipient(JournalKind.RELEASED, self.arrival + 1, ~self.is_lost, **number, **kinds)
        scenario = self.fleet.scenario
        following = self.message + scenario.sessions
        has_following = self.is_lost & (following < scenario.messages)
        skipped = self.fleet.accepted_at(self.session, self.sequence + 1) + OrderLimits().gap_timeout_ms + DAY_MS // 100
        gap = {**number, "last_sequence": self.sequence, "message_id": None, "payload_hash": None}
        yield self._of_recipient(JournalKind.GAP_SKIPPED, skipped, has_following, **gap)
        missed = {"session_tag": None, "node": self._nodes(self.node), "answer": self._absences()}
        yield self._of_recipient(JournalKind.MISSING_AT_NODE, self.arrival + 2, self.is_lied_about, **missed)

    def _nodes(self, node: Longs) -> Any:
        return self.fleet.node_ids(node)

    def _receipts(self) -> dict[str, Any]:
        """Return what liars signed when they acknowledged messages, as columns."""
        signed: list[Any] = [(None,) * len(RECEIPT_COLUMNS)] * len(self.message)
        for place, keys in self._lies():
            signed[place] = signed_receipt(at_ms=int(self.put[place]), **keys)
        columns = zip(*signed, strict=True) if signed else ((),) * len(RECEIPT_COLUMNS)
        return {
            name: pa.array(values, UNNUMBERED.field(name).type)
            for name, values in zip(RECEIPT_COLUMNS, columns, strict=True)
        }

    def _absences(self) -> Any:
        """Return the lists that liars signed for recipients."""
        signed: list[bytes | None] = [None] * len(self.message)
        for place, keys in self._lies():
            signed[place] = signed_absence(at_ms=int(self.arrival[place]), **keys)
        return pa.array(signed, pa.binary())

    def _lies(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the place of each message that its node lied about, and what it signs."""
        keys = self.fleet.dice.binary("inbox", self.recipient, 32)
        for place in np.flatnonzero(self.is_lied_about).tolist():
            yield (
                place,
                {
                    "node": self.fleet.liar(int(self.node[place])),
                    "key": InboxKey(keys[place].as_py()),
                    "blob": PayloadHash(self.payload_hash[place].as_py()),
                    "expires_at_ms": int(self.accepted[place] + self.ttl_s[place] * 1_000),
                },
            )

    def _of_sender(self, kind: JournalKind, at_ms: Longs, which: Flags | None = None, **more: Any) -> Any:
        columns = {
            "writer": self.fleet.dice.binary("client", self.sender, 16),
            "message_id": self.message_id,
            "payload_hash": self.payload_hash,
            "message_kind": _KIND_WORDS.take(pa.array(self.kind)),
            "size_bytes": _SIZES[self.kind],
            **more,
        }
        return self._events(kind, at_ms, which, columns, ahead_ms=self.fleet.client_offset_ms(self.sender))

    def _of_recipient(self, kind: JournalKind, at_ms: Longs, which: Flags, **more: Any) -> Any:
        columns = {
            "writer": self.fleet.dice.binary("client", self.recipient, 16),
            "message_id": self.message_id,
            "session_tag": self.fleet.dice.binary("session", self.session, 16),
            "payload_hash": self.payload_hash,
            "size_bytes": _SIZES[self.kind],
            **more,
        }
        return self._events(kind, at_ms, which, columns, ahead_ms=self.fleet.client_offset_ms(self.recipient))

    def _events(
        self,
        kind: JournalKind,
        at_ms: Longs,
        which: Flags | None,
        columns: Mapping[str, Any],
        *,
        ahead_ms: Longs | int = 0,
    ) -> Any:
        """Return those of the events that happened before the end. A column is an array or one value for all."""
        chosen = at_ms < self.fleet.scenario.end_ms
        places = np.flatnonzero(chosen if which is None else chosen & which)
        shown_at = np.maximum(at_ms + ahead_ms, 0)[places]
        return _table(kind, shown_at, {name: _taken(value, places) for name, value in columns.items()})


def _taken(value: Any, places: Longs) -> Any:
    if isinstance(value, np.ndarray):
        return value[places]
    return value.take(pa.array(places)) if isinstance(value, pa.Array) else value


def _table(kind: JournalKind, at_ms: Longs, columns: Mapping[str, Any]) -> Any:
    rows = len(at_ms)
    known = {**columns, "kind": kind.value, "at_ms": at_ms}
    return pa.table([_column(known.get(field.name), field.type, rows) for field in UNNUMBERED], schema=UNNUMBERED)


def _column(value: Any, kind: Any, rows: int) -> Any:
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, (np.ndarray, pa.Array)):
        return pc.cast(pa.array(value) if isinstance(value, np.ndarray) else value, kind)
    return pa.repeat(pa.scalar(value, kind), rows)


def _node_starts(fleet: Fleet) -> Any:
    """Return a start of each node at the beginning, and one after each outage."""
    scenario = fleet.scenario
    node = np.repeat(np.arange(scenario.nodes), scenario.days)
    day = np.tile(np.arange(scenario.days), scenario.nodes)
    begin, end = fleet.outage(node % SITES, day)
    was_down = (end > begin) & (end < scenario.end_ms)
    everyone = np.arange(scenario.nodes)
    who = np.concatenate([everyone, node[was_down]])
    at_ms = np.concatenate([np.full(len(everyone), scenario.start_ms), end[was_down]])
    columns = {"writer": fleet.dice.binary("node writer", who, 16), "node": fleet.node_ids(who)}
    return _table(JournalKind.NODE_STARTED, at_ms, columns)
