"""A row filled into a form is the row of the entry it stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.client.entry_builder import KEPT, EntryBuilder
from restante.client.outbox_types import Destination, Message
from restante.model.errors import OutOfRange, TooLarge
from restante.model.kinds import KIND_RULES, DeliveryClass, Kind, Priority
from restante.model.limits import MAX_SEALED_BYTES
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.runtime.sqlite.outbox.row_codec import arrival_of
from support.fleet.journal_files import message

LIMITS = OutboxLimits(upstream_max_age_ms=3_600_000)
DURABLE = [kind for kind, rule in KIND_RULES.items() if rule.delivery is DeliveryClass.DURABLE]
LIVE = [kind for kind in KIND_RULES if kind not in DURABLE]


@given(
    kind=st.sampled_from(DURABLE),
    ttl_s=st.sampled_from([3_600, 7_200, 86_400]),
    priority=st.sampled_from([None, *Priority]),
    route=st.sampled_from(Route),
    times_ms=st.lists(st.integers(0, 2**42), min_size=1, max_size=3),
)
def test_a_row_is_the_same_as_its_entrys_row_on_every_terms(
    kind: Kind, ttl_s: int, priority: Priority | None, route: Route, times_ms: list[int]
) -> None:
    forms = EntryBuilder(LIMITS)
    sent = Message(payload=b"sealed", sealed_plaintext=b"kept", kind=kind, ttl_s=ttl_s, priority=priority)
    where = Destination(route, "lane")
    for now_ms in times_ms:
        expected = arrival_of(forms.entry(sent, message(1), where, now_ms), LIMITS)
        assert forms.arrival(sent, message(1), where, now_ms) == expected


@pytest.mark.parametrize("kind", [*LIVE, "telegram"])
def test_what_is_never_queued_has_no_row(kind: str) -> None:
    forms = EntryBuilder(LIMITS)
    for _ in range(2):
        assert forms.arrival(Message(payload=b"", kind=kind), message(1), Destination(Route.MESH, "lane"), 0) is None


def test_a_message_that_breaks_a_limit_is_refused_with_a_form_and_without() -> None:
    forms = EntryBuilder(LIMITS)
    where = Destination(Route.MESH, "lane")
    for _ in range(2):
        with pytest.raises(TooLarge):
            forms.arrival(Message(payload=bytes(MAX_SEALED_BYTES + 1)), message(1), where, 0)
        with pytest.raises(OutOfRange):
            forms.arrival(Message(payload=b"", ttl_s=1), message(1), where, 0)
        assert forms.arrival(Message(payload=bytes(MAX_SEALED_BYTES)), message(1), where, 0) is not None


def test_more_lanes_than_forms_are_kept_change_nothing() -> None:
    forms = EntryBuilder(LIMITS)
    rows = [
        forms.arrival(Message(payload=b""), message(1), Destination(Route.MESH, f"lane {number % (KEPT + 1)}"), 5)
        for number in range(KEPT + 3)
    ]
    assert rows[0] == rows[KEPT + 1]
    assert rows[1] == rows[KEPT + 2]
