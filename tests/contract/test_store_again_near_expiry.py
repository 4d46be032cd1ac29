"""Near its expiry a message is refused by nodes, which never makes it a dead letter (SPEC 6.6, 6.10)."""

from pathlib import Path

import pytest

from restante.client.outbox import Outbox
from restante.model.error_codes import Code
from restante.model.states import Route, State
from restante.policy.completion import store_again_at_ms
from restante.policy.failures import Failure, failure_of_refusal
from restante.policy.retry import RetrySchedule
from restante.policy.settings import Settings
from restante.testing.deterministic import FakeClock, SeededEntropy
from support.outbox.scripted_carrier import DAY_MS, HOUR_MS, Wire, sent, state
from support.spec.clauses import clause

IMPATIENT = Settings(retry=RetrySchedule(max_attempts=5, max_delay_ms=60_000))


@clause("6.6", "10.4")
@pytest.mark.parametrize(
    ("left_ms", "is_stored_again"), [(HOUR_MS - 1, False), (HOUR_MS, True), (0, False), (-1, False), (5 * DAY_MS, True)]
)
def test_a_message_is_stored_again_only_if_an_hour_is_left_then(left_ms: int, is_stored_again: bool) -> None:
    expires_at_ms = DAY_MS + left_ms
    again_at_ms = store_again_at_ms(stored_at_ms=0, times_stored=1, expires_at_ms=expires_at_ms)
    assert again_at_ms == (DAY_MS if is_stored_again else expires_at_ms)


@clause("6.10", "3.14")
async def test_a_message_stored_again_near_its_expiry_expires_and_is_no_dead_letter(tmp_path: Path) -> None:
    clock = FakeClock()
    outbox = Outbox.open(tmp_path / "o.db", settings=IMPATIENT, clock=clock, entropy=SeededEntropy(1))
    ttl_s = (DAY_MS + 2 * HOUR_MS) // 1_000
    message_id = await sent(outbox, b"x", ttl_s=ttl_s)
    await outbox.drain({Route.MESH: Wire()})
    clock.advance(DAY_MS)  # by a node's clock that is ahead, less than an hour is left
    refusing = failure_of_refusal(Code.OUT_OF_RANGE, permanent=False)
    for _ in range(100):
        await outbox.drain({Route.MESH: Wire(failures=[refusing])})
        assert await state(outbox, message_id) is State.PENDING
        clock.advance(70_000)
    clock.advance(HOUR_MS)
    await outbox.sweep()
    assert await state(outbox, message_id) is State.EXPIRED
    await outbox.close()


@clause("6.7", "6.10")
def test_a_refusal_for_the_expiry_counts_as_no_attempt() -> None:
    assert failure_of_refusal(Code.OUT_OF_RANGE, permanent=False) is Failure.EXPIRES_TOO_SOON
    assert failure_of_refusal(Code.STORAGE_FAILED, permanent=False) is Failure.STORAGE_REFUSED
