"""policy/pruning: what a sweep does with old rows."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.outbox import step
from restante.core.outbox_events import TimePassed
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import Lease, OutboxEntry
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.pruning import Pruning, attention_at_ms, pruning
from restante.policy.settings import Settings
from support.spec.clauses import clause

CREATED_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
LIMITS = OutboxLimits()
SETTINGS = Settings()
DRAWING = OutboxEntry(
    message_id=MessageId(bytes(16)),
    route=Route.RELAY,
    lane="north",
    kind=Kind.DRAWING,
    payload=b"sealed",
    sealed_plaintext=b"kept",
    priority=Priority.NORMAL,
    created_at_ms=CREATED_MS,
    queued_at_ms=CREATED_MS,
    ttl_s=7 * 86_400,
    expires_at_ms=CREATED_MS + 7 * DAY_MS,
    next_attempt_at_ms=CREATED_MS,
)
BOARD = [Kind.DRAWING, Kind.DRAWING_DELETE, Kind.CHAT, Kind.CHAT_LEAVE, Kind.VOICE_LEAVE]
PERSONAL = [Kind.TEXT, Kind.MEDIA, Kind.READ_RECEIPT, Kind.DISAPPEARING, Kind.CONTROL]


@clause("3.9")
@pytest.mark.parametrize("kind", BOARD)
@pytest.mark.parametrize("ttl_days", [7, 30])
def test_link_traffic_is_pruned_in_silence_after_seven_days(kind: Kind, ttl_days: int) -> None:
    entry = replace(DRAWING, kind=kind, expires_at_ms=CREATED_MS + ttl_days * DAY_MS)
    assert pruning(LIMITS, entry, CREATED_MS + 7 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 7 * DAY_MS) is Pruning.PRUNE_SILENTLY
    assert pruning(LIMITS, entry, CREATED_MS + 31 * DAY_MS) is Pruning.PRUNE_SILENTLY


@clause("3.9")
def test_recovered_link_traffic_gets_its_seven_days_anew() -> None:
    recovered_ms = CREATED_MS + 6 * DAY_MS
    entry = replace(DRAWING, queued_at_ms=recovered_ms, expires_at_ms=CREATED_MS + 30 * DAY_MS)
    assert pruning(LIMITS, entry, recovered_ms + 7 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, recovered_ms + 7 * DAY_MS) is Pruning.PRUNE_SILENTLY


@clause("3.9")
@pytest.mark.parametrize("kind", PERSONAL)
def test_a_user_message_in_a_relay_lane_lives_its_own_ttl_and_then_gives_notice(kind: Kind) -> None:
    entry = replace(DRAWING, kind=kind, expires_at_ms=CREATED_MS + 30 * DAY_MS)
    assert pruning(LIMITS, entry, CREATED_MS + 8 * DAY_MS) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 30 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 30 * DAY_MS) is Pruning.EXPIRE


@clause("3.9")
@pytest.mark.parametrize("route", [Route.MESH, Route.CHANNEL])
def test_a_board_kind_on_another_route_is_not_link_traffic(route: Route) -> None:
    entry = replace(DRAWING, route=route, expires_at_ms=CREATED_MS + 30 * DAY_MS)
    assert pruning(LIMITS, entry, CREATED_MS + 8 * DAY_MS) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 30 * DAY_MS) is Pruning.EXPIRE


@clause("3.9")
def test_link_traffic_with_a_short_ttl_expires_with_a_notice() -> None:
    entry = replace(DRAWING, expires_at_ms=CREATED_MS + 3_600_000)
    assert pruning(LIMITS, entry, CREATED_MS + 3_600_000) is Pruning.EXPIRE


@clause("3.9")
def test_a_sweep_comes_every_five_minutes() -> None:
    assert LIMITS.sweep_interval_ms == 300_000


near = st.integers(-2, 2)


@st.composite
def living_entries(draw: st.DrawFn) -> OutboxEntry:
    """In flight, in any state, with ends so close to each other that each is the first in some."""
    state = draw(st.sampled_from([State.PENDING, State.SENDING, State.SENT]))
    return replace(
        DRAWING,
        route=draw(st.sampled_from(Route)),
        kind=draw(st.sampled_from([Kind.TEXT, Kind.DRAWING, Kind.CHAT])),
        priority=draw(st.sampled_from(Priority)),
        queued_at_ms=CREATED_MS + draw(near),
        expires_at_ms=CREATED_MS + draw(near) + draw(st.sampled_from([1, 24, 72, 7 * 24, 90 * 24])) * HOUR_MS,
        next_attempt_at_ms=CREATED_MS,
        state=state,
        lease=Lease(owner="drain-1", until_ms=CREATED_MS + MINUTE_MS + draw(near)) if state is State.SENDING else None,
        attempts=draw(st.integers(1, 15)),
        was_sent=state is State.SENT or draw(st.booleans()),
    )


@clause("3.5", "3.9", "2.2")
@given(entry=living_entries(), early_ms=st.integers(1, 200 * DAY_MS))
def test_time_changes_an_entry_at_its_attention_time_and_never_before(entry: OutboxEntry, early_ms: int) -> None:
    at_ms = attention_at_ms(LIMITS, entry)
    for before_ms in (at_ms - 1, at_ms - early_ms):
        assert step(entry, TimePassed(), now_ms=before_ms, settings=SETTINGS) == (entry, ())
    changed, effects = step(entry, TimePassed(), now_ms=at_ms, settings=SETTINGS)
    assert changed.state is not entry.state
    assert effects


@clause("3.5")
def test_a_claim_of_nobody_needs_attention_at_once() -> None:
    assert attention_at_ms(LIMITS, replace(DRAWING, state=State.SENDING)) == 0


@clause("2.2", "3.9")
@pytest.mark.parametrize(
    ("changes", "after_ms"),
    [
        ({"priority": Priority.HIGH}, HOUR_MS),
        ({"priority": Priority.NORMAL}, 24 * HOUR_MS),
        ({"priority": Priority.LOW}, 72 * HOUR_MS),
        ({"was_sent": True}, 7 * DAY_MS),
        ({"was_sent": True, "kind": Kind.TEXT}, 30 * DAY_MS),
        ({"was_sent": True, "route": Route.MESH}, 30 * DAY_MS),
        ({"was_sent": True, "state": State.SENT}, 7 * DAY_MS),
        ({"state": State.SENDING, "lease": Lease(owner="drain-1", until_ms=CREATED_MS + 5)}, 5),
    ],
)
def test_the_first_end_that_is_to_come_asks_for_attention(changes: dict[str, Any], after_ms: int) -> None:
    entry = replace(DRAWING, expires_at_ms=CREATED_MS + 30 * DAY_MS, **changes)
    assert attention_at_ms(LIMITS, entry) == CREATED_MS + after_ms
