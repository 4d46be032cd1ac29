"""core/mailbox_poll/buckets: open, ended and final, and when each is read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.mailbox_poll import buckets
from restante.core.mailbox_poll.buckets import (
    Bucket,
    MailStored,
    Phase,
    ReadFinished,
    due,
    needed_answers,
    with_current,
)
from restante.policy.mesh.time_buckets import DAY_MS, HOUR_MS, MINUTE_MS, bucket_end_ms
from support.mesh.tables import assert_table_holds
from support.spec.clauses import clause

NUMBER = 500_000
END_MS = bucket_end_ms(NUMBER)
OPEN = Bucket(number=NUMBER)
ENDED = Bucket(number=NUMBER, phase=Phase.ENDED, next_read_at_ms=END_MS + DAY_MS)
FINAL = Bucket(number=NUMBER, phase=Phase.FINAL)


def read(at_ms: int, *, counted: int = 4, nodes: int = 20, is_whole: bool = True) -> ReadFinished:
    return ReadFinished(began_at_ms=at_ms, counted=counted, storage_nodes=nodes, is_whole=is_whole)


def after(state: Bucket, event: buckets.Event, now_ms: int) -> Bucket:
    return buckets.step(state, event, now_ms=now_ms, poll_interval_ms=5 * MINUTE_MS)


@clause("7.5")
def test_every_phase_meets_every_event() -> None:
    events = [read(END_MS), read(END_MS + HOUR_MS), read(END_MS + DAY_MS), MailStored()]
    assert_table_holds(
        buckets.TABLE,
        {Phase.OPEN: [OPEN], Phase.ENDED: [ENDED], Phase.FINAL: [FINAL]},
        events,
        lambda state, event: after(state, event, END_MS + DAY_MS),
    )


@clause("7.5")
@pytest.mark.parametrize(
    ("event", "phase"),
    [
        (read(END_MS + HOUR_MS), Phase.ENDED),
        (read(END_MS + HOUR_MS - 1), Phase.OPEN),
        (read(END_MS + HOUR_MS, counted=3), Phase.OPEN),
        (read(END_MS + HOUR_MS, counted=3, nodes=3), Phase.ENDED),
        (read(END_MS + HOUR_MS, counted=2, nodes=3), Phase.OPEN),
        (read(END_MS + HOUR_MS, counted=4, nodes=5), Phase.ENDED),
        (read(END_MS + HOUR_MS, counted=0, nodes=0), Phase.OPEN),
        (read(END_MS + HOUR_MS, is_whole=False), Phase.OPEN),
    ],
)
def test_a_read_ends_the_polling_if_it_began_late_enough_and_enough_answers_count(
    event: ReadFinished, phase: Phase
) -> None:
    assert after(OPEN, event, event.began_at_ms + 1_000).phase is phase


@clause("7.5")
def test_one_read_never_finalizes_a_bucket_however_late_it_is() -> None:
    ended = after(OPEN, read(END_MS + 10 * DAY_MS), END_MS + 10 * DAY_MS)
    assert ended.phase is Phase.ENDED
    assert after(ended, read(ended.next_read_at_ms), ended.next_read_at_ms).phase is Phase.FINAL


@clause("7.5")
def test_the_second_read_is_due_a_day_after_the_end() -> None:
    ended = after(OPEN, read(END_MS + HOUR_MS), END_MS + HOUR_MS)
    assert ended.next_read_at_ms == END_MS + DAY_MS
    early = after(ended, read(END_MS + DAY_MS - 1), END_MS + DAY_MS)
    assert early.phase is Phase.ENDED


@clause("7.5")
def test_a_poll_inside_the_hour_is_followed_by_one_an_hour_after_its_end() -> None:
    polled = after(OPEN, read(END_MS - HOUR_MS), END_MS + HOUR_MS - MINUTE_MS)
    assert polled.next_read_at_ms == END_MS + HOUR_MS


@clause("7.5")
def test_old_open_buckets_are_read_with_growing_pauses() -> None:
    state, now_ms, reads = OPEN, END_MS + 3 * HOUR_MS, []
    for _ in range(8):
        state = after(state, read(now_ms, counted=0), now_ms)
        reads.append(now_ms)
        now_ms = state.next_read_at_ms
    assert [(later - earlier) // HOUR_MS for earlier, later in pairwise(reads)] == [1, 2, 4, 8, 16, 24, 24]


@clause("7.5")
def test_at_a_boundary_both_buckets_are_read() -> None:
    near = with_current({}, now_ms=END_MS - 5 * MINUTE_MS, since=NUMBER)
    assert due(near, now_ms=END_MS) == [NUMBER, NUMBER + 1]


@clause("7.5")
def test_a_full_sync_reads_720_buckets_oldest_first() -> None:
    now_ms = END_MS - 30 * MINUTE_MS
    numbers = due(with_current({}, now_ms=now_ms), now_ms=now_ms)
    assert numbers == list(range(NUMBER - 719, NUMBER + 1))


def test_buckets_older_than_thirty_days_are_dropped_and_states_kept() -> None:
    held = {NUMBER: FINAL, NUMBER - 800: OPEN}
    current = with_current(held, now_ms=END_MS - 30 * MINUTE_MS)
    assert current[NUMBER] is FINAL
    assert NUMBER - 800 not in current


def test_pushed_mail_makes_a_bucket_due_at_once() -> None:
    waiting = Bucket(number=NUMBER, next_read_at_ms=END_MS + DAY_MS)
    assert after(waiting, MailStored(), END_MS).next_read_at_ms == END_MS


@clause("7.5")
def test_a_bucket_is_read_again_if_a_subscription_was_lost_during_the_read() -> None:
    began_ms = END_MS - 30 * MINUTE_MS
    lost = after(OPEN, MailStored(), began_ms + 400)
    assert after(lost, read(began_ms), began_ms + 900).next_read_at_ms <= began_ms + 900
    later = after(lost, read(began_ms + 900), began_ms + 1_200)
    assert later.next_read_at_ms == began_ms + 1_200 + 5 * MINUTE_MS, "one such read is enough"


@clause("7.5")
@given(st.lists(st.tuples(st.integers(0, 6 * HOUR_MS), st.integers(0, 5), st.booleans()), max_size=40))
def test_no_bucket_is_final_without_two_counted_reads_the_second_a_day_after_its_end(
    reads: list[tuple[int, int, bool]],
) -> None:
    state, now_ms, counted_at = OPEN, END_MS - HOUR_MS, list[int]()
    for wait_ms, counted, is_whole in reads:
        now_ms += wait_ms
        state = after(state, read(now_ms, counted=counted, is_whole=is_whole), now_ms)
        if counted >= needed_answers(20) and is_whole:
            counted_at.append(now_ms)
    late = [at for at in counted_at if at >= END_MS + HOUR_MS]
    assert (state.phase is Phase.FINAL) == any(at >= END_MS + DAY_MS for at in late[1:])
