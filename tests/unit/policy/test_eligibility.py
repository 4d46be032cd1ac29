"""policy/eligibility: the one classification of SPEC 2.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.kinds import Kind
from restante.model.send_receipt import Dropped
from restante.model.states import DropReason
from restante.policy.eligibility import Queue, SendLive, classify
from support.spec.clauses import clause

DURABLE = [
    "text",
    "media",
    "read_receipt",
    "disappearing",
    "drawing",
    "drawing_delete",
    "chat",
    "chat_leave",
    "voice_leave",
    "control",
]
REAL_TIME = ["typing", "position", "heartbeat", "voice_frame"]


def test_the_two_lists_name_every_kind() -> None:
    assert {*DURABLE, *REAL_TIME} == {kind.value for kind in Kind}


@clause("2.4")
@pytest.mark.parametrize("kind", DURABLE)
@pytest.mark.parametrize("connected", [True, False])
def test_a_durable_kind_is_queued_connected_or_not(kind: str, connected: bool) -> None:
    assert classify(kind, connected=connected) == Queue()
    assert classify(Kind(kind), connected=connected) == Queue()


@clause("2.4")
@pytest.mark.parametrize("kind", REAL_TIME)
def test_a_real_time_kind_is_sent_live_or_dropped_but_never_queued(kind: str) -> None:
    assert classify(kind, connected=True) == SendLive()
    assert classify(kind, connected=False) == Dropped(DropReason.REAL_TIME_DURING_DISCONNECT)
    assert DropReason.REAL_TIME_DURING_DISCONNECT.value == "RealTimeDuringDisconnect"


@clause("2.4")
@pytest.mark.parametrize("kind", [None, "", "TEXT", "text ", "telepathy"])
@pytest.mark.parametrize("connected", [True, False])
def test_an_unknown_kind_is_dropped_as_not_eligible(kind: str | None, connected: bool) -> None:
    assert classify(kind, connected=connected) == Dropped(DropReason.NOT_QUEUE_ELIGIBLE)
    assert DropReason.NOT_QUEUE_ELIGIBLE.value == "NotQueueEligible"


@clause("2.4")
@given(kind=st.none() | st.text(), connected=st.booleans())
def test_any_name_from_outside_gets_an_answer(kind: str | None, connected: bool) -> None:
    if kind not in {*DURABLE, *REAL_TIME}:
        assert classify(kind, connected=connected) == Dropped(DropReason.NOT_QUEUE_ELIGIBLE)
