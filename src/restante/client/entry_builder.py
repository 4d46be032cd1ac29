"""Rows and entries made of messages: checked against the limits of their kind, and filled into a form made before on
the same terms, for most messages go where others went."""

from typing import Final, NamedTuple, NoReturn

from restante.client.outbox_types import Destination, Message
from restante.model.errors import TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, MessageId
from restante.model.kinds import KIND_RULES, Kind, Priority
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.eligibility import Queue, classify
from restante.policy.pruning import attention_at_ms
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.runtime.sqlite.outbox.new_entry import NewEntry

KEPT: Final = 1_024
"""Forms that are remembered; they have no bodies."""

_KINDS: Final = {kind.value: kind for kind in Kind}
_NOBODY: Final = MessageId(bytes(MESSAGE_ID_BYTES))
_Terms = tuple[str, int | None, Priority | None, Route, str]


class _Form(NamedTuple):
    """What messages sent on the same terms have in common; times are counted from when one is sent."""

    route: Route
    lane: str
    kind: Kind
    priority: Priority
    ttl_s: int
    life_ms: int
    attention_ms: int


class EntryBuilder:
    """Blank forms by the terms they were made on, to be filled in."""

    def __init__(self, limits: OutboxLimits) -> None:
        self._limits = limits
        self._forms: dict[_Terms, _Form] = {}

    def arrival(
        self, message: Message, message_id: MessageId, destination: Destination, now_ms: int
    ) -> NewEntry | None:
        """The row of a message that is to be queued; None for one that must not be (SPEC 2.4).

        Raises `TooLarge` or `OutOfRange` for a message that breaks a limit.
        """
        terms = (message.kind, message.ttl_s, message.priority, destination.route, destination.lane)
        form = self._forms.get(terms)
        if form is None:
            if not isinstance(classify(message.kind, connected=False), Queue):
                return None
            form = self._make(terms)
        route, lane, kind, priority, ttl_s, life_ms, attention_ms = form
        payload = message.payload
        size_bytes = len(payload)
        if size_bytes > MAX_SEALED_BYTES:
            _refuse_size(size_bytes)
        return (
            message_id,
            size_bytes,
            route,
            lane,
            kind,
            priority,
            now_ms,
            ttl_s,
            now_ms,
            now_ms + life_ms,
            now_ms,
            now_ms + attention_ms,
            None,  # nothing is known of its session
            None,
            None,
            payload,
            message.sealed_plaintext,
        )

    def entry(self, message: Message, message_id: MessageId, destination: Destination, now_ms: int) -> OutboxEntry:
        """The message as a carrier takes it, without its being queued; refuses as `arrival` does."""
        if len(message.payload) > MAX_SEALED_BYTES:
            _refuse_size(len(message.payload))
        terms = (message.kind, message.ttl_s, message.priority, destination.route, destination.lane)
        blank = _blank(terms)
        return blank.but(
            message_id=message_id,
            payload=message.payload,
            sealed_plaintext=message.sealed_plaintext,
            created_at_ms=now_ms,
            queued_at_ms=now_ms,
            expires_at_ms=now_ms + blank.expires_at_ms,
            next_attempt_at_ms=now_ms,
        )

    def _make(self, terms: _Terms) -> _Form:
        blank = _blank(terms)
        if len(self._forms) >= KEPT:
            self._forms.clear()
        self._forms[terms] = form = _Form(
            route=blank.route,
            lane=blank.lane,
            kind=blank.kind,
            priority=blank.priority,
            ttl_s=blank.ttl_s,
            life_ms=blank.expires_at_ms,
            attention_ms=attention_at_ms(self._limits, blank),
        )
        return form


def _refuse_size(size_bytes: int) -> NoReturn:
    """More bytes are to be sent than SPEC 2.8 allows."""
    raise TooLarge("the payload", size_bytes=size_bytes, limit_bytes=MAX_SEALED_BYTES)


def _blank(terms: _Terms) -> OutboxEntry:
    """An entry of nobody, made at time zero."""
    name, ttl_s, priority, route, lane = terms
    kind = _KINDS[name]
    rule = KIND_RULES[kind]
    life_s = resolve_ttl_s(kind, ttl_s)
    return OutboxEntry(
        message_id=_NOBODY,
        route=route,
        lane=lane,
        kind=kind,
        payload=b"",
        sealed_plaintext=b"",
        priority=rule.priority if priority is None else priority,
        created_at_ms=0,
        queued_at_ms=0,
        ttl_s=life_s,
        expires_at_ms=transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=0, ttl_s=life_s),
        next_attempt_at_ms=0,
    )
