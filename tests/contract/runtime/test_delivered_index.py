"""The delivered index: the final state of every message for 30 days."""

import pytest

from restante.core.outbox_events import Cancelled, Event, ReadAcked, ReceiptAcked, TransmitSucceeded
from restante.model.errors import DuplicateMessageId
from restante.model.journal import JournalKind
from restante.model.states import Confirmation, Route, State
from restante.runtime.sqlite.outbox.delivered_index import RETENTION_MS
from support.fleet.journal_files import message
from support.outbox.entries import DAY_MS, accept, entry
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, history


@clause("3.13")
@pytest.mark.parametrize(
    ("events", "state"),
    [((ReceiptAcked(),), State.DELIVERED), ((ReadAcked(),), State.DELIVERED), ((Cancelled(),), State.DEAD)],
)
def test_the_final_state_is_kept_for_thirty_days_whatever_the_end(
    file: ClientFile, events: tuple[Event, ...], state: State
) -> None:
    accept(file.outbox, entry(1))
    for event in events:
        file.outbox.apply(message(1), event, now_ms=NOW_MS)
    file.outbox.discard(message(1), now_ms=NOW_MS)
    ended = file.outbox.ended.find(message(1))
    assert ended is not None
    assert (ended.state, ended.ended_at_ms) == (state, NOW_MS)
    file.outbox.run_maintenance(now_ms=NOW_MS + RETENTION_MS - 1)
    assert file.outbox.ended.find(message(1)) is not None
    file.outbox.run_maintenance(now_ms=NOW_MS + RETENTION_MS)
    assert file.outbox.ended.find(message(1)) is None


@clause("3.13")
def test_an_expired_message_is_known_after_its_tombstone_is_gone(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    file.outbox.sweep(now_ms=NOW_MS + DAY_MS)
    file.outbox.run_maintenance(now_ms=NOW_MS + 2 * DAY_MS)
    ended = file.outbox.ended.find(message(1))
    assert ended is not None
    assert (ended.state, ended.ended_at_ms) == (State.EXPIRED, NOW_MS + DAY_MS)


@clause("3.6", "3.13")
def test_an_evicted_message_is_known(file: ClientFile) -> None:
    for number in range(257):
        accept(file.outbox, entry(number, route=Route.UPSTREAM))
    ended = file.outbox.ended.find(message(0))
    assert ended is not None
    assert ended.state is State.EVICTED


@clause("3.13")
def test_a_late_read_finds_its_message_once(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    file.outbox.apply(message(1), TransmitSucceeded(), now_ms=NOW_MS)
    file.outbox.apply(message(1), ReceiptAcked(), now_ms=NOW_MS)
    for _ in range(2):
        file.outbox.apply(message(1), ReadAcked(), now_ms=NOW_MS + 5)
    ended = file.outbox.ended.find(message(1))
    assert ended is not None
    assert ended.confirmation is Confirmation.READ
    assert history(file, 1).count(JournalKind.READ) == 1


def test_an_id_that_was_delivered_is_not_accepted_again(file: ClientFile) -> None:
    accept(file.outbox, entry(1))
    file.outbox.apply(message(1), ReceiptAcked(), now_ms=NOW_MS)
    with pytest.raises(DuplicateMessageId):
        accept(file.outbox, entry(1))
