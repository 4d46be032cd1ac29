"""Build outbox entries from what a caller sends, after checking all of it (SPEC 2.3-2.8).

What depends only on kind, TTL, priority and destination is cached, because most messages repeat it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from restante.client.application.argument_checks import wrong_type
from restante.client.outbox_types import Destination, Message
from restante.model.error_codes import Code
from restante.model.errors import OutOfRange, RestanteError, TooLarge
from restante.model.ids import MessageId
from restante.model.ids import message_id as checked_message_id
from restante.model.kinds import KIND_RULES, Kind, Priority
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route
from restante.policy.eligibility import Queue, classify
from restante.policy.send_order import lane_for
from restante.policy.ttl import resolve_ttl_s, transport_expiry_ms
from restante.runtime.sqlite.outbox.new_entry import NewEntry

CACHED_TERMS: Final = 1_024
MAX_LANE_BYTES: Final = 512
_KINDS: Final = {kind.value: kind for kind in Kind}
_ROUTES: Final = ", ".join(f"Route.{route.name}" for route in Route)


class _Terms(NamedTuple):
    kind: str
    ttl_s: int | None
    priority: int | None
    route: Route
    lane: str


class _Form(NamedTuple):
    """What messages sent on the same terms have in common."""

    route: Route
    lane: str
    kind: Kind
    priority: Priority
    ttl_s: int
    lifetime_ms: int


class EntryBuilder:
    """Checks messages and makes entries of them."""

    def __init__(self) -> None:
        self._forms: dict[_Terms, _Form] = {}

    def new_entry(
        self, message: Message, message_id: MessageId, destination: Destination, now_ms: int
    ) -> NewEntry | None:
        """Return the entry of a message that is queued; None for a kind that never is (SPEC 2.4).

        The message has passed `check_message`.
        """
        form = self._form(message, destination)
        if form is None:
            return None
        return NewEntry(
            message_id=message_id,
            size_bytes=len(message.payload),
            route=form.route,
            lane=form.lane,
            kind=form.kind,
            priority=form.priority,
            created_at_ms=now_ms,
            ttl_s=form.ttl_s,
            queued_at_ms=now_ms,
            expires_at_ms=now_ms + form.lifetime_ms,
            next_attempt_at_ms=now_ms,
            payload=message.payload,
            sealed_plaintext=message.sealed_plaintext,
        )

    def live_entry(self, message: Message, message_id: MessageId, destination: Destination, now_ms: int) -> OutboxEntry:
        """Return a message of a real-time kind as a carrier takes it, without queueing it."""
        form = _make(_terms(message, destination))
        return OutboxEntry(
            message_id=message_id,
            route=form.route,
            lane=form.lane,
            kind=form.kind,
            payload=message.payload,
            sealed_plaintext=message.sealed_plaintext,
            priority=form.priority,
            created_at_ms=now_ms,
            queued_at_ms=now_ms,
            ttl_s=form.ttl_s,
            expires_at_ms=now_ms + form.lifetime_ms,
            next_attempt_at_ms=now_ms,
        )

    def _form(self, message: Message, destination: Destination) -> _Form | None:
        terms = _terms(message, destination)
        form = self._forms.get(terms)
        if form is None:
            if not isinstance(classify(message.kind, connected=False), Queue):
                return None
            if len(self._forms) >= CACHED_TERMS:
                self._forms.clear()
            self._forms[terms] = form = _make(terms)
        return form


def check_message(message: Message, destination: Destination) -> None:
    """Raise our error for any argument of the wrong type or form, before anything is stored."""
    _check_types(message, destination)
    if type(destination.route) is not Route:
        raise wrong_type(f"route must be one of {_ROUTES}", destination.route)
    check_lane(destination.lane)
    if type(message.kind) is not Kind and type(message.kind) is not str:
        raise wrong_type("kind must be a text", message.kind)
    for name, value in (("payload", message.payload), ("sealed_plaintext", message.sealed_plaintext)):
        if type(value) is not bytes:
            raise wrong_type(f"{name} must be bytes", value)
        if len(value) > MAX_SEALED_BYTES:
            raise TooLarge(f"the {name}", size_bytes=len(value), limit_bytes=MAX_SEALED_BYTES)
    if message.ttl_s is not None and type(message.ttl_s) is not int:  # also before a form of equal terms is found
        raise wrong_type("ttl_s must be a whole number of seconds", message.ttl_s)
    _check_priority(message.priority)
    if message.message_id is not None:
        check_id(message.message_id)
        checked_message_id(message.message_id)


def check_items(items: object) -> None:
    """Raise unless these are pairs of a message and its destination that can be sent."""
    if not isinstance(items, Sequence):
        raise wrong_type("send_many takes a list of pairs of a Message and a Destination", items)
    for item in items:
        match item:
            case (message, destination):
                check_message(message, destination)
            case _:
                raise wrong_type("send_many takes pairs of a Message and a Destination", item)


def check_id(message_id: object) -> None:
    """Raise unless this can be looked up as a message id."""
    if type(message_id) is not bytes:
        raise wrong_type("message_id must be the 16 bytes of a UUIDv4", message_id)


def _check_types(message: object, destination: object) -> None:
    if not isinstance(message, Message):
        raise wrong_type("send takes a Message", message)
    if not isinstance(destination, Destination):
        raise wrong_type("send takes Destinations", destination)


def _check_priority(priority: object) -> None:
    if priority is None or type(priority) is Priority:
        return
    if type(priority) is not int:
        raise wrong_type("priority must be a Priority or 0, 1 or 2", priority)
    if priority not in set(Priority):
        raise OutOfRange("priority", priority, low=min(Priority), high=max(Priority))


def check_lane(lane: object) -> None:
    """Raise unless this can be the name of a lane: 1 to 512 bytes of UTF-8."""
    if not isinstance(lane, str):
        raise wrong_type("a lane's name must be a text", lane)
    try:
        size_bytes = len(lane.encode())
    except UnicodeEncodeError:
        raise RestanteError("a lane's name must be valid Unicode", code=Code.MALFORMED) from None
    if not 1 <= size_bytes <= MAX_LANE_BYTES:
        raise OutOfRange("the length of a lane's name", size_bytes, low=1, high=MAX_LANE_BYTES, unit="bytes")


def _terms(message: Message, destination: Destination) -> _Terms:
    return _Terms(message.kind, message.ttl_s, message.priority, destination.route, destination.lane)


def _make(terms: _Terms) -> _Form:
    kind = _KINDS[terms.kind]
    rule = KIND_RULES[kind]
    ttl_s = resolve_ttl_s(kind, terms.ttl_s)
    return _Form(
        route=terms.route,
        lane=lane_for(terms.route, terms.lane, kind),
        kind=kind,
        priority=rule.priority if terms.priority is None else Priority(terms.priority),
        ttl_s=ttl_s,
        lifetime_ms=transport_expiry_ms(ttl_type=rule.ttl_type, created_at_ms=0, ttl_s=ttl_s),
    )
