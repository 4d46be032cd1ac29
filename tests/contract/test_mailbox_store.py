"""What any relay store must do (SPEC 6.1-6.3): one suite, run on the real store and on its stand-in."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from restante.core.mailbox import Usage
from restante.model.ids import InboxKey
from restante.model.sources import Source
from restante.policy.quota import MailboxQuota, Refusal
from restante.ports.mailbox_store import MailboxStore
from restante.ports.relay_connection import StoredBlob
from restante.runtime.sqlite.mailbox import deferred_index
from restante.testing.memory_mailbox import MemoryMailbox
from support.relay.puts import ALICE, BOB, HOUR_MS, OVERHEAD_BYTES, QUOTA, everything, flush, keep, put
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, open_node_file

GREEDY, MODEST = Source(b"greedy"), Source(b"modest")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MailboxStore]:
    if request.param == "memory":
        yield MemoryMailbox()
        return
    file = open_node_file(tmp_path / "node.db")
    yield file.mailbox
    file.database.close()


@clause("6.1")
def test_a_flush_gives_what_was_put_with_its_time(store: MailboxStore) -> None:
    first = put(store, ALICE, b"one")
    assert everything(store, ALICE) == [StoredBlob(blob_id=first, stored_at_ms=NOW_MS, envelope=b"one")]


@clause("6.1")
def test_a_flush_keeps_the_order_of_insertion_whatever_the_expiries(store: MailboxStore) -> None:
    for name, hours in ((b"one", 9), (b"two", 2), (b"three", 5)):
        put(store, ALICE, name, expires_at_ms=NOW_MS + hours * HOUR_MS)
        put(store, BOB, b"between", expires_at_ms=NOW_MS + hours * HOUR_MS)
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"one", b"two", b"three"]


@clause("6.1")
def test_a_flush_deletes_nothing(store: MailboxStore) -> None:
    put(store, ALICE, b"one")
    assert everything(store, ALICE) == everything(store, ALICE) != []


@clause("6.1")
def test_pages_join_into_the_whole_without_a_gap_or_a_repeat(store: MailboxStore) -> None:
    envelopes = [b"%d" % number for number in range(7)]
    for envelope in envelopes:
        put(store, ALICE, envelope)
        put(store, BOB, envelope)
    pages = []
    after = 0
    while page := flush(store, ALICE, after=after, limit=3, max_bytes=1_000_000, now_ms=NOW_MS):
        pages.append([blob.envelope for blob in page])
        after = page[-1].blob_id
    assert pages == [envelopes[:3], envelopes[3:6], envelopes[6:]]


@clause("6.1")
def test_a_page_goes_on_behind_a_blob_that_was_deleted_meanwhile(store: MailboxStore) -> None:
    ids = [put(store, ALICE, b"%d" % number) for number in range(4)]
    store.delete_all(ALICE, [ids[1]], now_ms=NOW_MS)
    assert [
        blob.envelope for blob in flush(store, ALICE, after=ids[1], limit=9, max_bytes=1_000_000, now_ms=NOW_MS)
    ] == [b"2", b"3"]


@clause("6.1")
def test_equal_puts_are_kept_apart(store: MailboxStore) -> None:
    ids = [put(store, ALICE, b"same") for _ in range(3)]
    assert len(set(ids)) == 3
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"same"] * 3


@clause("6.1")
def test_an_inbox_holds_only_its_own_mail(store: MailboxStore) -> None:
    put(store, ALICE, b"for alice")
    assert everything(store, BOB) == []


@clause("6.1")
def test_a_deleted_blob_is_gone_and_the_others_stay(store: MailboxStore) -> None:
    ids = [put(store, ALICE, b"%d" % number) for number in range(3)]
    assert store.delete_all(ALICE, [ids[1]], now_ms=NOW_MS)
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"0", b"2"]


@clause("6.1")
def test_a_delete_needs_the_inbox_besides_the_id(store: MailboxStore) -> None:
    blob_id = put(store, ALICE, b"for alice")
    assert not store.delete_all(BOB, [blob_id], now_ms=NOW_MS)
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"for alice"]


def test_a_second_delete_finds_nothing(store: MailboxStore) -> None:
    blob_id = put(store, ALICE, b"one")
    assert store.delete_all(ALICE, [blob_id], now_ms=NOW_MS)
    assert not store.delete_all(ALICE, [blob_id], now_ms=NOW_MS)


def test_an_id_is_never_given_twice(store: MailboxStore) -> None:
    """A delete that comes late, or twice, must not hit a blob that came after."""
    blob_id = put(store, ALICE, b"old")
    store.delete_all(ALICE, [blob_id], now_ms=NOW_MS)
    assert put(store, ALICE, b"new") > blob_id


@clause("6.3")
def test_a_blob_is_served_until_the_millisecond_before_its_expiry_and_not_at_it(store: MailboxStore) -> None:
    put(store, ALICE, b"one", expires_at_ms=NOW_MS + HOUR_MS)
    assert len(everything(store, ALICE, now_ms=NOW_MS + HOUR_MS - 1)) == 1
    assert everything(store, ALICE, now_ms=NOW_MS + HOUR_MS) == []


@clause("6.3")
def test_expired_blobs_take_no_place_in_a_page(store: MailboxStore) -> None:
    for number in range(3):
        put(store, ALICE, b"dead", expires_at_ms=NOW_MS + 1)
        put(store, ALICE, b"%d" % number)
    page = flush(store, ALICE, after=0, limit=3, max_bytes=1_000_000, now_ms=NOW_MS + 1)
    assert [blob.envelope for blob in page] == [b"0", b"1", b"2"]


@clause("6.1")
def test_a_reap_takes_all_that_expire_at_or_before_now_in_one_sweep(store: MailboxStore) -> None:
    for inbox in (ALICE, BOB):
        for offset_ms in (-1, 0, 1):
            put(store, inbox, b"%d" % offset_ms, expires_at_ms=NOW_MS + HOUR_MS + offset_ms)
    assert store.reap(now_ms=NOW_MS + HOUR_MS) == 4
    assert store.reap(now_ms=NOW_MS + HOUR_MS) == 0
    for inbox in (ALICE, BOB):
        assert [blob.envelope for blob in everything(store, inbox)] == [b"1"]


def test_usage_counts_blobs_and_bytes_of_one_inbox(store: MailboxStore) -> None:
    assert store.usage(ALICE) == Usage(blobs=0, total_bytes=0)
    put(store, ALICE, b"12345")
    put(store, ALICE, b"123")
    put(store, BOB, b"1")
    assert store.usage(ALICE) == Usage(blobs=2, total_bytes=8 + 2 * OVERHEAD_BYTES)


def test_usage_goes_down_with_what_leaves(store: MailboxStore) -> None:
    blob_id = put(store, ALICE, b"12345")
    put(store, ALICE, b"123", expires_at_ms=NOW_MS + 1)
    put(store, ALICE, b"1")
    store.delete_all(ALICE, [blob_id], now_ms=NOW_MS)
    store.reap(now_ms=NOW_MS + 1)
    assert store.usage(ALICE) == Usage(blobs=1, total_bytes=1 + 1 * OVERHEAD_BYTES)


@clause("6.1")
def test_a_page_ends_before_the_blob_that_would_make_it_too_large_but_is_never_empty(store: MailboxStore) -> None:
    for size in (10, 10, 10, 200, 1):
        put(store, ALICE, bytes(size))
    pages = []
    after = 0
    while page := flush(store, ALICE, after=after, limit=9, max_bytes=25 + 2 * OVERHEAD_BYTES, now_ms=NOW_MS):
        pages.append([len(blob.envelope) for blob in page])
        after = page[-1].blob_id
    assert pages == [[10, 10], [10], [200], [1]]


@clause("6.6", "6.7")
def test_the_last_blob_of_a_quota_is_kept_and_the_next_refused_for_now_while_nothing_is_evicted(
    store: MailboxStore,
) -> None:
    quota = MailboxQuota(max_blobs=100)
    answers = store.put_all([keep(ALICE, b"%d" % number) for number in range(101)], quota=quota, now_ms=NOW_MS)
    assert all(isinstance(answer, int) for answer in answers[:100])
    refused = answers[100]
    assert isinstance(refused, Refusal)
    assert (refused.permanent, refused.code.value) == (False, "E004")
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"%d" % number for number in range(100)]
    assert isinstance(store.put_all([keep(BOB, b"x")], quota=quota, now_ms=NOW_MS)[0], int)


@clause("6.6")
def test_the_last_byte_of_a_quota_is_kept_and_one_more_refused(store: MailboxStore) -> None:
    quota = MailboxQuota(max_bytes=1_000_000)
    for _ in range(4):
        put(store, ALICE, bytes(240_000))
    left_bytes = quota.max_bytes - store.usage(ALICE).total_bytes
    near = keep(ALICE, bytes(left_bytes - 100))
    last = keep(ALICE, bytes(left_bytes - 100 + left_bytes - len(near.envelope)))
    assert len(last.envelope) == left_bytes
    over, exact = store.put_all([keep(ALICE, bytes(left_bytes)), last], quota=quota, now_ms=NOW_MS)
    assert isinstance(over, Refusal)
    assert isinstance(exact, int)
    assert store.usage(ALICE) == Usage(blobs=5, total_bytes=1_000_000)


@clause("6.6")
def test_a_full_node_refuses_for_now_and_evicts_nothing(store: MailboxStore) -> None:
    quota = MailboxQuota(total_bytes=1_000_000)
    order = [keep(inbox, bytes(100_000)) for inbox in (ALICE, BOB) for _ in range(6)]
    answers = store.put_all(order, quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 9 + [False] * 3
    refused = answers[-1]
    assert isinstance(refused, Refusal)
    assert (refused.permanent, refused.code.value) == (False, "E004")
    first = answers[0]
    assert isinstance(first, int)
    assert store.delete_all(ALICE, [first], now_ms=NOW_MS) == 1
    assert isinstance(store.put_all(order[:1], quota=quota, now_ms=NOW_MS)[0], int)


@clause("6.6")
def test_once_half_of_the_node_is_used_a_source_holds_at_most_a_tenth(store: MailboxStore) -> None:
    quota = MailboxQuota(total_bytes=1_000_000)
    size = 40_000 - OVERHEAD_BYTES - 10
    mailboxes = [InboxKey(bytes([number]) * 32) for number in range(30)]
    greedy = [keep(inbox, bytes(size), source=GREEDY) for inbox in mailboxes[:15]]
    answers = store.put_all(greedy, quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 13 + [False] * 2
    modest = [keep(inbox, bytes(size), source=MODEST) for inbox in mailboxes[15:18]]
    answers = store.put_all(modest, quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True, True, False]


@clause("6.6")
def test_once_half_of_a_mailbox_is_used_a_source_holds_at_most_a_quarter_of_it(store: MailboxStore) -> None:
    quota = MailboxQuota(max_blobs=100)
    answers = store.put_all([keep(ALICE, b"x", source=GREEDY) for _ in range(60)], quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 51 + [False] * 9
    answers = store.put_all([keep(ALICE, b"x", source=MODEST) for _ in range(30)], quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 25 + [False] * 5
    assert isinstance(store.put_all([keep(BOB, b"x", source=GREEDY)], quota=quota, now_ms=NOW_MS)[0], int)


@clause("6.6")
def test_what_is_deleted_no_longer_counts_against_its_source(store: MailboxStore) -> None:
    quota = MailboxQuota(max_blobs=100)
    order = [keep(ALICE, b"x", source=GREEDY) for _ in range(60)]
    ids = [blob_id for blob_id in store.put_all(order, quota=quota, now_ms=NOW_MS) if isinstance(blob_id, int)]
    store.put_all([keep(ALICE, b"x", source=MODEST) for _ in range(25)], quota=quota, now_ms=NOW_MS)
    store.delete_all(ALICE, ids[:30], now_ms=NOW_MS)  # 21 and 25 are left of the two
    answers = store.put_all(order[:10], quota=quota, now_ms=NOW_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 5 + [False] * 5


@clause("6.10")
def test_a_full_mailbox_is_not_reaped_while_the_clock_is_in_doubt(store: MailboxStore) -> None:
    quota = MailboxQuota(max_blobs=100)
    brief = [keep(ALICE, b"%d" % number, expires_at_ms=NOW_MS + HOUR_MS) for number in range(100)]
    store.put_all(brief, quota=quota, now_ms=NOW_MS)
    later_ms = NOW_MS + 2 * HOUR_MS
    [refused] = store.put_all([keep(ALICE, b"late")], quota=quota, now_ms=later_ms, may_reap=False)
    assert isinstance(refused, Refusal)
    assert store.usage(ALICE).blobs == 100


@clause("6.6")
def test_what_has_expired_and_was_not_swept_yet_takes_nobodys_place(store: MailboxStore) -> None:
    quota = MailboxQuota(max_blobs=100)
    brief = [keep(ALICE, b"%d" % number, expires_at_ms=NOW_MS + HOUR_MS) for number in range(40)]
    lasting = [keep(ALICE, b"stays %d" % number) for number in range(60)]
    store.put_all([*brief, *lasting], quota=quota, now_ms=NOW_MS)
    later = [keep(ALICE, b"later %d" % number) for number in range(41)]
    assert isinstance(store.put_all(later[:1], quota=quota, now_ms=NOW_MS + HOUR_MS - 1)[0], Refusal)
    answers = store.put_all(later, quota=quota, now_ms=NOW_MS + HOUR_MS)
    assert [isinstance(answer, int) for answer in answers] == [True] * 40 + [False]
    assert store.usage(ALICE).blobs == 100
    assert store.reap(now_ms=NOW_MS + HOUR_MS) == 0  # gone already


def test_a_delete_of_many_takes_those_that_are_there(store: MailboxStore) -> None:
    ids = [put(store, ALICE, b"%d" % number) for number in range(4)]
    others = put(store, BOB, b"bob's")
    assert store.delete_all(ALICE, [ids[0], ids[2], others, 999_999, ids[0]], now_ms=NOW_MS) == 2
    assert [blob.envelope for blob in everything(store, ALICE)] == [b"1", b"3"]
    assert len(everything(store, BOB)) == 1


@clause("6.1")
def test_a_reap_may_be_done_in_steps(store: MailboxStore) -> None:
    for number in range(5):
        put(store, ALICE, b"%d" % number, expires_at_ms=NOW_MS + 1)
    assert [store.reap(now_ms=NOW_MS + 1, limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert store.usage(ALICE) == Usage(blobs=0, total_bytes=0)


class TwoStores(RuleBasedStateMachine):
    """Whatever is done to both, the real store and its stand-in answer alike. Ids are compared by their rank."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self._file = open_node_file(Path(self._directory.name) / "node.db")
        self._real: MailboxStore = self._file.mailbox
        self._memory: MailboxStore = MemoryMailbox()
        self._ids: list[tuple[int, int]] = []
        self._now_ms = NOW_MS

    def teardown(self) -> None:
        self._file.database.close()
        self._directory.cleanup()

    @rule(inbox=st.sampled_from([ALICE, BOB]), envelope=st.binary(min_size=1, max_size=3), life_ms=st.integers(1, 5))
    def put(self, inbox: InboxKey, envelope: bytes, life_ms: int) -> None:
        order = keep(inbox, envelope, expires_at_ms=self._now_ms + life_ms)
        [real] = self._real.put_all([order], quota=QUOTA, now_ms=self._now_ms)
        [memory] = self._memory.put_all([order], quota=QUOTA, now_ms=self._now_ms)
        assert isinstance(real, int)
        assert isinstance(memory, int)
        self._ids.append((real, memory))

    @rule(by_ms=st.integers(1, 3))
    def wait(self, by_ms: int) -> None:
        self._now_ms += by_ms

    @precondition(lambda self: self._ids)
    @rule(inbox=st.sampled_from([ALICE, BOB]), data=st.data())
    def delete(self, inbox: InboxKey, data: st.DataObject) -> None:
        real, memory = data.draw(st.sampled_from(self._ids))
        gone = self._real.delete_all(inbox, [real], now_ms=self._now_ms)
        assert gone == self._memory.delete_all(inbox, [memory], now_ms=self._now_ms)

    @rule()
    def reap(self) -> None:
        assert self._real.reap(now_ms=self._now_ms) == self._memory.reap(now_ms=self._now_ms)

    @rule(inbox=st.sampled_from([ALICE, BOB]), limit=st.integers(1, 4), data=st.data())
    def flush_a_page(self, inbox: InboxKey, limit: int, data: st.DataObject) -> None:
        after = data.draw(st.sampled_from([(0, 0), *self._ids]))
        self._compare(inbox, after, limit)

    @rule()
    def reopen(self) -> None:
        self._file.database.close()
        self._file = open_node_file(Path(self._directory.name) / "node.db")
        self._real = self._file.mailbox

    @invariant()
    def hold_the_same(self) -> None:
        for inbox in (ALICE, BOB):
            assert self._real.usage(inbox) == self._memory.usage(inbox)
            self._compare(inbox, (0, 0), 1_000)

    def _compare(self, inbox: InboxKey, after: tuple[int, int], limit: int) -> None:
        real = flush(self._real, inbox, after=after[0], limit=limit, max_bytes=1_000_000, now_ms=self._now_ms)
        memory = flush(self._memory, inbox, after=after[1], limit=limit, max_bytes=1_000_000, now_ms=self._now_ms)
        ranks = [{pair[side]: rank for rank, pair in enumerate(self._ids)} for side in (0, 1)]
        assert [(ranks[0][blob.blob_id], blob.stored_at_ms, blob.envelope) for blob in real] == [
            (ranks[1][blob.blob_id], blob.stored_at_ms, blob.envelope) for blob in memory
        ]


@clause("6.1", "6.3")
@pytest.mark.parametrize("flush_at", [3, deferred_index.FLUSH_AT])
def test_the_stand_in_answers_as_the_real_store_does(flush_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_index, "FLUSH_AT", flush_at)
    run_state_machine_as_test(TwoStores, settings=settings(max_examples=30, stateful_step_count=25, deadline=None))
