"""client/entry_builder: everything a caller gives is checked at the boundary, with our errors."""

import uuid
from typing import Any

import pytest

from restante.client.entry_builder import CACHED_TERMS, MAX_LANE_BYTES, EntryBuilder, check_message
from restante.client.outbox_types import Destination, Message
from restante.model.error_codes import Code
from restante.model.errors import OutOfRange, RestanteError, TooLarge
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.states import Route
from support.spec.clauses import clause

NOW_MS = 1_700_000_000_000
ID = MessageId(uuid.UUID("9f1c5a3e-6d0b-4c1e-8a57-2f4e0c9b7d11").bytes)
BOB = Destination(Route.RELAY, "bob")


def build(message: Any, destination: Any = BOB) -> Any:
    check_message(message, destination)
    return EntryBuilder().new_entry(message, ID, destination, NOW_MS)


@clause("2.3", "3.1")
def test_a_message_becomes_an_entry_with_the_values_of_its_kind() -> None:
    new = build(Message(payload=b"sealed", kind="text"))
    assert (new.kind, new.priority, new.ttl_s) == (Kind.TEXT, Priority.NORMAL, 30 * 86_400)
    assert (new.created_at_ms, new.expires_at_ms) == (NOW_MS, NOW_MS + 30 * 86_400_000)
    assert (new.size_bytes, new.payload, new.lane) == (6, b"sealed", "bob")


@clause("3.4")
def test_a_control_message_goes_into_the_lane_for_control_messages() -> None:
    assert build(Message(payload=b"ack", kind="control")).lane == "control:bob"


@clause("2.4")
@pytest.mark.parametrize("kind", ["typing", "no such kind"])
def test_a_kind_that_is_never_queued_makes_no_entry(kind: str) -> None:
    assert build(Message(payload=b"x", kind=kind)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": "text"},
        {"payload": bytearray(b"x")},
        {"payload": None},
        {"sealed_plaintext": "text"},
        {"ttl_s": 3600.5},
        {"ttl_s": "3600"},
        {"ttl_s": True},
        {"priority": "high"},
        {"priority": True},
        {"priority": 1.0},
        {"kind": None},
        {"kind": b"text"},
        {"message_id": uuid.uuid4()},
        {"message_id": str(uuid.uuid4())},
        {"message_id": b"short"},
        {"message_id": bytes(16)},
    ],
)
def test_a_message_with_a_value_of_the_wrong_type_is_refused_with_our_error(changes: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"payload": b"x"}
    with pytest.raises(RestanteError) as refused:
        build(Message(**(fields | changes)))
    assert refused.value.code is Code.MALFORMED


@pytest.mark.parametrize("priority", [7, -1, 3])
def test_a_priority_that_does_not_exist_is_refused_with_its_range(priority: Any) -> None:
    with pytest.raises(OutOfRange, match=r"priority = -?\d is outside 0\.\.2"):
        build(Message(payload=b"x", priority=priority))


def test_a_priority_may_be_given_as_its_number() -> None:
    number: Any = 2
    assert build(Message(payload=b"x", priority=number)).priority is Priority.HIGH


@pytest.mark.parametrize(
    "destination",
    [
        Destination("pigeon", "r"),  # type: ignore[arg-type]  # what a caller may do
        Destination("relay", "r"),  # type: ignore[arg-type]  # what a caller may do
        Destination(Route.RELAY, b"bob"),  # type: ignore[arg-type]  # what a caller may do
        Destination(Route.RELAY, "lone \ud800 surrogate"),
        ("relay", "bob"),
        "bob",
        None,
    ],
)
def test_a_destination_that_is_none_is_refused_with_our_error(destination: Any) -> None:
    with pytest.raises(RestanteError) as refused:
        build(Message(payload=b"x"), destination)
    assert refused.value.code is Code.MALFORMED


@pytest.mark.parametrize("lane", ["", "x" * (MAX_LANE_BYTES + 1), "x" * 1_000_000])
def test_the_name_of_a_lane_has_a_length(lane: str) -> None:
    with pytest.raises(OutOfRange, match="length of a lane's name"):
        build(Message(payload=b"x"), Destination(Route.RELAY, lane))


def test_something_that_is_no_message_is_refused_with_our_error() -> None:
    with pytest.raises(RestanteError, match="takes a Message; got bytes"):
        build(b"hello")


@clause("2.5")
@pytest.mark.parametrize("ttl_s", [3_599, 90 * 86_400 + 1, -1, 10**30])
def test_a_ttl_outside_the_range_of_its_kind_is_refused(ttl_s: int) -> None:
    with pytest.raises(OutOfRange):
        build(Message(payload=b"x", ttl_s=ttl_s))


@clause("2.8")
def test_a_payload_of_256_kib_fits_and_one_byte_more_does_not() -> None:
    assert build(Message(payload=bytes(MAX_SEALED_BYTES))) is not None
    with pytest.raises(TooLarge):
        build(Message(payload=bytes(MAX_SEALED_BYTES + 1)))


def test_more_destinations_than_are_cached_are_no_matter() -> None:
    builder = EntryBuilder()
    for number in range(CACHED_TERMS + 2):
        made = builder.new_entry(Message(payload=b"x"), ID, Destination(Route.MESH, str(number)), NOW_MS)
        assert made is not None
        assert made.lane == str(number)
