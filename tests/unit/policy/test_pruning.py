"""policy/pruning: what a sweep does with old rows."""

import pytest

from restante.core.outbox import step
from restante.core.outbox_events import TimePassed
from restante.model.ids import MessageId
from restante.model.kinds import Kind, Priority
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.pruning import Pruning, next_deadline_ms, pruning
from restante.policy.settings import Settings
from support.spec.clauses import clause

CREATED_MS = 1_700_000_000_000
DAY_MS = 86_400_000
LIMITS = OutboxLimits()
SETTINGS = Settings()
DRAWING = OutboxEntry(
    message_id=MessageId(bytes(16)),
    route=Route.UPSTREAM,
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
PERSONAL = [Kind.DRAWING, Kind.TEXT, Kind.MEDIA, Kind.READ_RECEIPT, Kind.DISAPPEARING, Kind.CONTROL]


@clause("3.9")
@pytest.mark.parametrize("kind", BOARD)
@pytest.mark.parametrize("ttl_days", [7, 30])
def test_upstream_traffic_is_pruned_in_silence_after_seven_days(kind: Kind, ttl_days: int) -> None:
    entry = DRAWING._replace(kind=kind, expires_at_ms=CREATED_MS + ttl_days * DAY_MS)
    assert pruning(LIMITS, entry, CREATED_MS + 7 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 7 * DAY_MS) is Pruning.PRUNE_SILENTLY
    assert pruning(LIMITS, entry, CREATED_MS + 31 * DAY_MS) is Pruning.PRUNE_SILENTLY


@clause("3.9")
def test_recovered_upstream_traffic_gets_another_seven_days() -> None:
    recovered_ms = CREATED_MS + 6 * DAY_MS
    entry = DRAWING._replace(queued_at_ms=recovered_ms, expires_at_ms=CREATED_MS + 30 * DAY_MS)
    assert pruning(LIMITS, entry, recovered_ms + 7 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, recovered_ms + 7 * DAY_MS) is Pruning.PRUNE_SILENTLY


@clause("3.9")
@pytest.mark.parametrize("kind", PERSONAL)
@pytest.mark.parametrize("route", [Route.RELAY, Route.MESH, Route.CHANNEL])
def test_on_other_routes_a_message_lives_its_own_ttl_and_then_gives_notice(kind: Kind, route: Route) -> None:
    entry = DRAWING._replace(kind=kind, route=route, expires_at_ms=CREATED_MS + 30 * DAY_MS)
    assert pruning(LIMITS, entry, CREATED_MS + 8 * DAY_MS) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 30 * DAY_MS - 1) is Pruning.KEEP
    assert pruning(LIMITS, entry, CREATED_MS + 30 * DAY_MS) is Pruning.EXPIRE


@clause("3.9")
def test_upstream_traffic_with_a_short_ttl_expires_with_a_notice() -> None:
    entry = DRAWING._replace(expires_at_ms=CREATED_MS + 3_600_000)
    assert pruning(LIMITS, entry, CREATED_MS + 3_600_000) is Pruning.EXPIRE


@clause("3.9")
def test_a_sweep_comes_every_five_minutes() -> None:
    assert LIMITS.sweep_interval_ms == 300_000


@clause("3.9")
@pytest.mark.parametrize("route", Route)
@pytest.mark.parametrize("ttl_days", [1, 7, 30])
def test_time_ends_an_entry_at_its_deadline_and_never_before(route: Route, ttl_days: int) -> None:
    entry = DRAWING._replace(route=route, expires_at_ms=CREATED_MS + ttl_days * DAY_MS)
    at_ms = next_deadline_ms(LIMITS, route=route, queued_at_ms=entry.queued_at_ms, expires_at_ms=entry.expires_at_ms)
    assert at_ms == CREATED_MS + (min(7, ttl_days) if route is Route.UPSTREAM else ttl_days) * DAY_MS
    assert step(entry, TimePassed(), now_ms=at_ms - 1, settings=SETTINGS) == (entry, ())
    changed, effects = step(entry, TimePassed(), now_ms=at_ms, settings=SETTINGS)
    assert changed.state is State.EXPIRED
    assert effects
