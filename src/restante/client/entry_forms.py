"""Outbox entries made of messages: checked against the limits of their kind, and copied from one made before on the
same terms, for most messages go where others went."""

from typing import Final

from restante.client.outbox_words import Destination, Message
from restante.model.errors import TooLarge
from restante.model.ids import MESSAGE_ID_BYTES, MessageId
from restante.model.kinds import KIND_RULES, Kind, Priority
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.records import OutboxEntry
from restante.model.states import Route
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms

KEPT: Final = 1_024
"""Forms that are remembered; they have no bodies."""

_KINDS: Final = {kind.value: kind for kind in Kind}
_NOBODY: Final = MessageId(bytes(MESSAGE_ID_BYTES))
_Terms = tuple[str, int | None, Priority | None, Route, str]


class EntryForms:
    """Entries made at time zero, by the terms they were made on: blank forms to be filled in."""

    def __init__(self) -> None:
        self._forms: dict[_Terms, OutboxEntry] = {}

    def entry(self, message: Message, message_id: MessageId, destination: Destination, now_ms: int) -> OutboxEntry:
        """Raises `TooLarge` or `OutOfRange` for a message that breaks a limit."""
        payload = message.payload
        if len(payload) > MAX_SEALED_BYTES:
            raise TooLarge("the payload", size_bytes=len(payload), limit_bytes=MAX_SEALED_BYTES)
        terms = (message.kind, message.ttl_s, message.priority, destination.route, destination.lane)
        form = self._forms.get(terms) or self._make(terms)
        return form.but(
            message_id=message_id,
            payload=payload,
            sealed_plaintext=message.sealed_plaintext,
            created_at_ms=now_ms,
            queued_at_ms=now_ms,
            expires_at_ms=now_ms + form.expires_at_ms,
            next_attempt_at_ms=now_ms,
        )

    def _make(self, terms: _Terms) -> OutboxEntry:
        name, ttl_s, priority, route, lane = terms
        kind = _KINDS[name]
        rule = KIND_RULES[kind]
        life_s = resolve_ttl_s(kind, ttl_s)
        if len(self._forms) >= KEPT:
            self._forms.clear()
        self._forms[terms] = form = OutboxEntry(
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
        return form
