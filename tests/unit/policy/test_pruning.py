"""policy/pruning: what a sweep does with old rows."""

from dataclasses import replace

import pytest

from clauses import clause
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.records import OutboxEntry
from restante.model.states import Route
from restante.policy.capacity import OutboxLimits
from restante.policy.pruning import Pruning, next_sweep_at_ms, pruning

CREATED_MS = 1_700_000_000_000
DAY_MS = 86_400_000
LIMITS = OutboxLimits()
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
    assert next_sweep_at_ms(LIMITS, CREATED_MS) == CREATED_MS + 300_000
