"""policy/mesh: how often a recipient reads its open buckets."""

from restante.policy.mesh.polling import POLL_MS, SUBSCRIBED_POLL_MS, poll_interval_ms, wait_ms
from support.spec.clauses import clause


@clause("7.5")
def test_a_recipient_reads_seldom_while_nodes_push_and_soon_again_after_passes_that_left_few_pushing() -> None:
    assert poll_interval_ms(is_subscribed=True) == SUBSCRIBED_POLL_MS
    assert poll_interval_ms(is_subscribed=False) == POLL_MS
    passes = range(1, 8)
    waits = [poll_interval_ms(is_subscribed=False, passes_unpushed=each) for each in passes]
    assert waits == [1_000, 2_000, 4_000, 8_000, POLL_MS, POLL_MS, POLL_MS]
    assert poll_interval_ms(is_subscribed=False, passes_unpushed=10**6) == POLL_MS


@clause("7.5")
def test_the_next_pass_begins_when_a_bucket_is_due_and_not_without_a_pause() -> None:
    assert wait_ms(next_read_at_ms=None, now_ms=0, interval_ms=SUBSCRIBED_POLL_MS) == SUBSCRIBED_POLL_MS
    assert wait_ms(next_read_at_ms=5_000, now_ms=0, interval_ms=SUBSCRIBED_POLL_MS) == 5_000
    assert wait_ms(next_read_at_ms=10, now_ms=0, interval_ms=POLL_MS) == 1_000
    assert wait_ms(next_read_at_ms=10**9, now_ms=0, interval_ms=POLL_MS) == POLL_MS
