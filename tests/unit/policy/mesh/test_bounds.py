"""Tokens and directory copies of one connection, by a clock of seconds."""

from hypothesis import given
from hypothesis import strategies as st

from restante.policy.mesh.bounds import (
    ENTRIES_PER_S,
    ENTRY_BURST,
    MOST_PROVED_KEYS,
    WHOLE_COPY_INTERVAL_S,
    DirectoryCopies,
    EntryTokens,
    delete_cost,
)
from restante.policy.mesh.time_buckets import FULL_SYNC_BUCKETS, HOUR_MS, current_buckets
from restante.wire.frames.mesh_types import MAX_HASHES
from support.spec.clauses import clause


@clause("7.12")
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 3_000)), max_size=60))
def test_no_interval_grants_more_than_the_burst_and_the_rate(requests: list[tuple[int, int]]) -> None:
    tokens, now_s, granted = EntryTokens(now_s=0.0), 0.0, 0
    for count, pause_ms in requests:
        now_s += pause_ms / 1_000
        if tokens.take(count, now_s):
            granted += count
        else:
            later_s = now_s + tokens.wait_ms(count) / 1_000
            assert EntryTokens.take(tokens, count, later_s)
            now_s, granted = later_s, granted + count
        assert granted <= ENTRY_BURST + ENTRIES_PER_S * now_s + 1e-6


@clause("7.12")
def test_a_connection_gets_one_whole_copy_an_hour_page_by_page() -> None:
    copies = DirectoryCopies()
    assert not copies.may_send(256, 0.0)
    assert copies.may_send(0, 0.0)
    copies.sent(256)
    assert not copies.may_send(512, 1.0)
    assert copies.may_send(256, 1.0)
    copies.sent(None)
    assert not copies.may_send(0, WHOLE_COPY_INTERVAL_S - 1)
    assert copies.wait_ms(WHOLE_COPY_INTERVAL_S - 1) == 1_000
    assert copies.may_send(0, WHOLE_COPY_INTERVAL_S)


@clause("7.12")
def test_a_delete_costs_by_its_hashes_and_the_longest_one_is_within_a_burst() -> None:
    assert [delete_cost(hashes) for hashes in (0, 1, 16, 17, MAX_HASHES)] == [1, 1, 1, 2, ENTRIES_PER_S]
    assert delete_cost(MAX_HASHES) <= ENTRY_BURST


@clause("7.5", "7.12")
def test_a_connection_may_ask_for_bodies_of_every_bucket_of_a_full_sync() -> None:
    assert FULL_SYNC_BUCKETS + len(current_buckets(HOUR_MS)) <= MOST_PROVED_KEYS
