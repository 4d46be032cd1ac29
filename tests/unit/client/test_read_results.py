"""When an inbox counts as read, and when reading has failed."""

import json

import pytest

from restante.client.places.read_results import ReadResults, SomeInboxesUnread, StillReading
from restante.client.places.reading import InboxToRead, Reading
from restante.client.places.reading_status import ReadingStatus, UnreadPlace
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.crypto.identity import Identity
from restante.model.errors import Malformed
from restante.model.ids import NodeKey
from restante.model.places import MeshPlace, Place, RelayPlace
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed
from restante.testing.deterministic import FakeClock

INBOX = OwnInbox(Identity(bytes(32)))
PUBLIC, CONTACTS, FORMER = "public inbox", "contacts inbox 1", "contacts inbox 0"
RELAY = RelayPlace(node_key=NodeKey(bytes(32)), host="127.0.0.1", port=1)
MESH = MeshPlace()
AT_RELAY = AttemptFailed("the relay does not answer", failure=Failure.CONNECTION_REFUSED)
IN_MESH = AttemptFailed("no node answers", failure=Failure.NETWORK_TIMEOUT)


def results(*places: Place, clock: FakeClock | None = None) -> ReadResults:
    inboxes = (
        InboxToRead(INBOX, PUBLIC),
        InboxToRead(INBOX, CONTACTS),
        InboxToRead(INBOX, FORMER, is_former=True),
    )
    relays = tuple(each for each in places if isinstance(each, RelayPlace))
    return ReadResults(Reading(inboxes, relays, MESH in places), now_ms=(clock or FakeClock()).now_ms)


def why(read: ReadResults) -> AttemptFailed | None:
    return read.failure


def test_a_failure_is_not_final_until_a_try_of_each_inbox_has_ended() -> None:
    read = results(MESH)
    read.failed(MESH, PUBLIC, IN_MESH)
    assert type(why(read)) is StillReading
    read.reached(MESH, CONTACTS)
    assert type(why(read)) is SomeInboxesUnread
    assert str(why(read)) == str(IN_MESH)
    assert not read.was_connected


def test_a_failure_stays_until_its_own_inbox_is_read() -> None:
    read = results(MESH)
    for _ in range(2):
        read.failed(MESH, PUBLIC, IN_MESH)
        read.reached(MESH, CONTACTS)
        assert isinstance(why(read), SomeInboxesUnread)
    read.reached(MESH, PUBLIC)
    assert why(read) is None
    assert read.was_connected


def test_a_former_inbox_is_no_failure_and_counts_only_for_having_read_all() -> None:
    read = results(MESH)
    read.reached(MESH, PUBLIC)
    read.reached(MESH, CONTACTS)
    read.failed(MESH, FORMER, IN_MESH)
    assert why(read) is None
    assert (read.was_connected, read.has_read_all) == (True, False)
    read.reached(MESH, FORMER)
    assert read.has_read_all


def test_a_former_inbox_that_is_read_makes_the_failure_of_the_others_no_smaller() -> None:
    read = results(MESH)
    read.reached(MESH, FORMER)
    for name in (PUBLIC, CONTACTS):
        read.failed(MESH, name, IN_MESH)
    assert why(read) is IN_MESH


@pytest.mark.parametrize("lost", [RELAY, MESH])
def test_a_place_that_fails_is_no_failure_while_another_is_read(lost: Place) -> None:
    other: Place = MESH if lost == RELAY else RELAY
    read = results(RELAY, MESH)
    for name in (PUBLIC, CONTACTS):
        read.failed(lost, name, AT_RELAY)
    assert why(read) is None, "the other place was not tried"
    for name in (PUBLIC, CONTACTS):
        read.reached(other, name)
    assert why(read) is None
    assert (read.was_connected, read.has_read_all) == (True, False)


def test_an_inbox_that_fails_at_every_place_is_a_failure() -> None:
    read = results(RELAY, MESH)
    for name in (PUBLIC, CONTACTS):
        read.failed(RELAY, name, AT_RELAY)
    read.reached(MESH, PUBLIC)
    read.failed(MESH, CONTACTS, IN_MESH)
    assert isinstance(why(read), SomeInboxesUnread)
    read.failed(MESH, PUBLIC, IN_MESH)
    assert why(read) is AT_RELAY


def test_a_client_without_places_has_no_failure_and_was_not_connected() -> None:
    read = results()
    assert (why(read), read.was_connected) == (None, False)


def test_the_status_names_the_places_that_fail_and_since_when() -> None:
    clock = FakeClock()
    read = results(RELAY, MESH, clock=clock)
    began_ms = clock.at_ms
    for name in (PUBLIC, CONTACTS):
        read.failed(RELAY, name, AT_RELAY)
    assert read.status() == ReadingStatus(), "the mesh was not tried"
    for _ in range(2):
        clock.advance(5_000)
        for name in (PUBLIC, CONTACTS):
            read.failed(RELAY, name, AT_RELAY)
            read.failed(MESH, name, IN_MESH)
    assert read.status().failing == (
        UnreadPlace(place="127.0.0.1:1", since_ms=began_ms, code="E001", text=str(AT_RELAY)),
        UnreadPlace(place="mesh", since_ms=began_ms + 5_000, code="E001", text=str(IN_MESH)),
    )
    assert read.status().is_settled
    for name in (PUBLIC, CONTACTS):
        read.reached(MESH, name)
    assert read.status() == ReadingStatus(is_read=True, is_part_read=True)


def test_the_status_says_that_one_inbox_is_read_and_another_is_not() -> None:
    read = results(MESH)
    read.reached(MESH, PUBLIC)
    assert not read.status().is_settled
    read.failed(MESH, CONTACTS, IN_MESH)
    status = read.status()
    assert (status.is_read, status.is_part_read, len(status.failing)) == (False, True, 1)


def test_a_connection_that_was_lost_leaves_the_status_open_until_the_next_try_has_ended() -> None:
    read = results(RELAY)
    for name in (PUBLIC, CONTACTS):
        read.reached(RELAY, name)
        read.lost(RELAY, name)
    assert (read.status(), read.failure, read.was_connected) == (ReadingStatus(), None, True)
    for name in (PUBLIC, CONTACTS):
        read.failed(RELAY, name, AT_RELAY)
        read.lost(RELAY, name)
    assert read.status().failing, "a failure stays until the place is reached"


def test_a_client_without_places_is_never_settled() -> None:
    assert results().status() == ReadingStatus()


@pytest.mark.parametrize("data", [None, {}, {"is_read": 1}, {"is_read": True, "is_part_read": True, "failing": [{}]}])
def test_a_status_of_another_process_is_checked(data: object) -> None:
    with pytest.raises(Malformed):
        ReadingStatus.from_data(data)


def test_a_status_is_the_same_after_a_way_as_json() -> None:
    read = results(MESH)
    for name in (PUBLIC, CONTACTS):
        read.failed(MESH, name, IN_MESH)
    assert ReadingStatus.from_data(json.loads(json.dumps(read.status().to_data()))) == read.status()
