"""The write batcher: what is committed together, and what each peer gets once it is on disk or has failed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest

from restante.core.mailbox import Keep
from restante.core.mesh_proofs.receipts import SignedCommits
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey, NodeKey
from restante.model.sources import Source
from restante.node.stats import RelayCounters, RelayEvent
from restante.node.write_batcher import MAX_BATCH, QUICK_DISK_S, SMALL_BATCH, WHOLE_BATCH, WriteBatcher
from restante.policy.quota import Refusal
from restante.policy.settings import Settings
from restante.testing.deterministic import FakeClock
from restante.testing.memory_mailbox import MemoryMailbox
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames import codec
from restante.wire.merkle import address_hash, stored_leaf
from support.link.phases import HELLO
from support.spec.clauses import clause
from support.wire.frame_reader import FrameReader

NODE = Identity(b"n" * 32)
INBOX = InboxKey(b"I" * 32)
Result = TypeVar("Result")


class SlowDisk:
    """Commits begin at once and end when the test says so, well or badly."""

    def __init__(self) -> None:
        self.under_way: asyncio.Future[object] | None = None
        self.began = 0
        self.apart: list[bool] = []
        self._result: object = None

    async def run(self, operation: Callable[[], Result]) -> Result:
        return operation()

    def start(self, operation: Callable[[], Result], *, apart: bool) -> asyncio.Future[Result]:
        assert self.under_way is None, "there is one writer"
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._result = operation()
        self.under_way = cast("asyncio.Future[object]", answer)
        self.began += 1
        self.apart.append(apart)
        return answer

    async def end(self, problem: Exception | None = None) -> None:
        answer, self.under_way = self.under_way, None
        assert answer is not None
        if problem is None:
            answer.set_result(self._result)
        else:
            answer.set_exception(problem)
        await turns()


class Peer:
    """Satisfies `node.frame_family.Peer`; keeps the answers and whether it is read from."""

    hello = HELLO
    binding = bytes(32)
    is_open = True
    can_write = True
    node_key: NodeKey | None = None

    def __init__(self, source: bytes = b"net") -> None:
        self.source = Source(source)
        self.remote = ("127.0.0.1", 1)
        self.is_read = True
        self.stored: list[codec.Stored] = []
        self.refusals: list[tuple[int, Refusal]] = []

    def send(self, raw: bytes) -> None:
        for _, frame in FrameReader().feed(raw):
            assert isinstance(frame, codec.Stored)
            self.stored.append(frame)

    def refuse(self, request: int, refusal: Refusal, *, retry_after_ms: int = 0) -> None:
        assert retry_after_ms == 0
        self.refusals.append((request, refusal))

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def close(self) -> None: ...

    def abort(self) -> None: ...


async def turns() -> None:
    """As many turns of the loop as a batch may take from one step to the next."""
    for _ in range(5):
        await asyncio.sleep(0)


class Bench:
    """A write batcher with everything around it."""

    def __init__(self) -> None:
        self.disk, self.store = SlowDisk(), MemoryMailbox()
        self.events: list[RelayEvent] = []
        self.counters = RelayCounters(on_event=lambda event, _code: self.events.append(event))
        self.announced: list[InboxKey] = []
        self.time_s = 0.0
        self.batcher = WriteBatcher(
            NODE,
            self.store,
            self.disk,
            settings=Settings(),
            clock=FakeClock(),
            counters=self.counters,
            time_s=lambda: self.time_s,
        )
        self.batcher.on_stored(self.announced.extend)
        self.now_ms = FakeClock().now_ms()

    def keeps(self, count: int) -> list[Keep]:
        texts = [b"%d" % number for number in range(count)]
        expires_at_ms = self.now_ms + 86_400_000
        return [
            Keep(INBOX, hashed, expires_at_ms, text, leaf=stored_leaf(address_hash(INBOX, expires_at_ms), hashed))
            for text, hashed in zip(texts, map(hash_sealed_bytes, texts), strict=True)
        ]

    def put(self, peer: Peer, count: int) -> list[Keep]:
        keeps = self.keeps(count)
        self.batcher.put(peer, range(1, count + 1), keeps)
        return keeps


def is_verified(stored: codec.Stored, keeps: Sequence[Keep], node: Identity = NODE) -> bool:
    receipts = SignedCommits(node.node_key).receipts_of_run(stored.ack, stored.path, [keep.leaf for keep in keeps])
    return receipts is not None


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def batches(bench: Bench, peer: Peer) -> list[int]:
    """How many puts each commit held, until all are answered."""
    await turns()
    sizes: list[int] = []
    while bench.disk.under_way is not None:
        before = sum(len(stored.requests) for stored in peer.stored)
        await bench.disk.end()
        sizes.append(sum(len(stored.requests) for stored in peer.stored) - before)
    return sizes


@clause("6.2")
@pytest.mark.parametrize(
    ("puts", "sizes"),
    [
        (1, [1]),
        (WHOLE_BATCH, [WHOLE_BATCH]),
        (WHOLE_BATCH + 22, [128, 22]),
        (1_024, [512, 256, 128, 128]),
        (4_096, [MAX_BATCH, MAX_BATCH, MAX_BATCH, 512, 256, 128, 128]),
    ],
)
async def test_of_many_that_wait_half_are_written_at_a_time_few_go_whole(
    bench: Bench, puts: int, sizes: list[int]
) -> None:
    peer = Peer()
    bench.put(peer, puts)
    assert await batches(bench, peer) == sizes
    assert (bench.batcher.pending_puts, bench.batcher.pending_bytes) == (0, 0)


async def test_what_several_connections_bring_in_one_turn_is_one_commit(bench: Bench) -> None:
    peers = [Peer() for _ in range(10)]
    for peer in peers:
        bench.put(peer, 3)
    await turns()
    await bench.disk.end()
    assert bench.disk.began == 1
    assert [len(stored.requests) for peer in peers for stored in peer.stored] == [3] * 10


@clause("7.8", "10.2")
async def test_a_commit_is_signed_once_for_all_peers_and_each_gets_the_path_of_its_own_puts(bench: Bench) -> None:
    peers = {Peer(): count for count in (1, 5, 2, 20)}
    keeps = {peer: bench.put(peer, count) for peer, count in peers.items()}
    await turns()
    await bench.disk.end()
    frames = [(peer, stored) for peer in peers for stored in peer.stored]
    assert len({stored.ack for _, stored in frames}) == 1
    assert {stored.path.leaves for _, stored in frames} == {28}
    for peer, stored in frames:
        assert is_verified(stored, keeps[peer])
        assert not is_verified(stored, keeps[peer], Identity(b"m" * 32))
        assert not is_verified(stored, [*keeps[peer][:-1], replaced(keeps[peer][-1])])


def replaced(keep: Keep) -> Keep:
    return keep._replace(leaf=bytes(32))


@clause("10.2")
async def test_the_receipts_of_a_commit_cover_what_was_stored_and_nothing_that_was_refused(bench: Bench) -> None:
    peer = Peer()
    keeps = bench.keeps(3)
    too_large = keeps[1]._replace(envelope=bytes(200_000_000))
    bench.batcher.put(peer, range(1, 4), [keeps[0], too_large, keeps[2]])
    await turns()
    await bench.disk.end()
    [stored] = peer.stored
    assert (stored.requests, stored.path.leaves) == ((1, 3), 2)
    assert is_verified(stored, [keeps[0], keeps[2]])
    assert [request for request, _ in peer.refusals] == [2]


@pytest.mark.parametrize(("puts", "apart"), [(SMALL_BATCH, False), (SMALL_BATCH + 1, True)])
async def test_only_a_few_puts_may_keep_the_loop_waiting_for_the_disk(bench: Bench, puts: int, apart: bool) -> None:
    bench.put(Peer(), puts)
    await turns()
    assert bench.disk.apart == [apart]


async def test_a_disk_that_was_quick_is_waited_for_on_the_loop_until_it_is_slow(bench: Bench) -> None:
    for took_s in (QUICK_DISK_S, QUICK_DISK_S + 0.001, 0.0, 0.0):
        bench.put(Peer(), SMALL_BATCH + 1)
        await turns()
        bench.time_s += took_s
        await bench.disk.end()
    assert bench.disk.apart == [True, False, True, False]


@clause("1.3")
@pytest.mark.parametrize("puts", [1, SMALL_BATCH + 1])
async def test_receipts_are_signed_ahead_but_given_only_after_the_commit(bench: Bench, puts: int) -> None:
    peer = Peer()
    keeps = bench.put(peer, puts)
    await turns()
    assert peer.stored == []
    assert bench.announced == []
    await bench.disk.end()
    [stored] = peer.stored
    assert is_verified(stored, keeps)
    assert stored.requests == tuple(range(1, puts + 1))
    assert bench.announced == [INBOX]


@clause("1.3")
@pytest.mark.parametrize("puts", [1, SMALL_BATCH + 1])
async def test_what_was_signed_ahead_is_never_given_when_the_commit_fails(bench: Bench, puts: int) -> None:
    peer = Peer()
    bench.put(peer, puts)
    await turns()
    await bench.disk.end(StoreUnusable("node.db: the disk is full or failing"))
    assert peer.stored == []
    assert [request for request, _ in peer.refusals] == list(range(1, puts + 1))
    assert {(refused.permanent, refused.code) for _, refused in peer.refusals} == {(False, Code.STORAGE_FAILED)}
    assert bench.announced == []
    assert (bench.counters.puts_stored, bench.batcher.pending_puts, bench.batcher.pending_bytes) == (0, 0, 0)
    assert bench.events == [RelayEvent.STORE_FAILED]


async def test_a_store_that_works_again_is_told_of_once(bench: Bench) -> None:
    peer = Peer()
    for problem in (StoreUnusable("full"), StoreUnusable("full"), None, None):
        bench.put(peer, 1)
        await turns()
        await bench.disk.end(problem)
    assert bench.events == [RelayEvent.STORE_FAILED, RelayEvent.STORE_RECOVERED]
    assert len(peer.stored) == len(peer.refusals) == 2


async def test_what_comes_while_a_batch_is_committed_is_in_the_next(bench: Bench) -> None:
    early, late = Peer(), Peer()
    bench.put(early, 1)
    await turns()
    bench.put(late, 1)
    await turns()
    assert bench.disk.began == 1
    await bench.disk.end()
    assert (len(early.stored), len(late.stored), bench.disk.began) == (1, 0, 2)
    finished = asyncio.create_task(bench.batcher.finished())
    await turns()
    assert not finished.done()
    await bench.disk.end()
    assert len(late.stored) == 1
    assert finished.done()


async def test_recipients_are_told_of_stored_mail_before_its_senders_are_answered(bench: Bench) -> None:
    peer = Peer()
    answered: list[int] = []
    bench.batcher.on_stored(lambda _inboxes: answered.append(len(peer.stored)))
    bench.put(peer, 1)
    await turns()
    await bench.disk.end()
    assert (answered, len(peer.stored)) == ([0], 1)


@clause("6.8")
@pytest.mark.parametrize("source", [b"another", b"greedy"], ids=["another source", "the same source"])
async def test_a_modest_sender_waits_for_no_more_than_the_batch_in_progress(bench: Bench, source: bytes) -> None:
    greedy, modest = Peer(b"greedy"), Peer(source)
    bench.put(greedy, 20 * MAX_BATCH)
    await turns()
    bench.put(modest, 1)
    await bench.disk.end()
    assert modest.stored == []
    await bench.disk.end()
    assert len(modest.stored) == 1


@clause("6.8")
async def test_a_hundred_connections_of_one_source_share_equally_with_a_single_other_source(bench: Bench) -> None:
    crowd, single = [Peer(b"crowd") for _ in range(100)], Peer(b"single")
    for peer in crowd:
        bench.put(peer, 200)
    bench.put(single, 2_000)
    await turns()
    for _ in range(3):
        await bench.disk.end()
    stored = [sum(len(each.requests) for each in peer.stored) for peer in (single, *crowd)]
    assert stored[0] >= 0.4 * sum(stored)


@clause("6.8")
async def test_a_greedy_peer_is_not_read_until_its_puts_are_on_disk_and_others_are(bench: Bench) -> None:
    greedy, modest = Peer(b"greedy"), Peer(b"modest")
    large = Keep(INBOX, hash_sealed_bytes(b"large"), bench.now_ms + 86_400_000, bytes(250_000), leaf=bytes(32))
    bench.batcher.put(greedy, range(20), [large] * 20)
    bench.put(modest, 1)
    assert (greedy.is_read, modest.is_read) == (False, True)
    await turns()
    while bench.disk.under_way is not None:
        await bench.disk.end()
    assert greedy.is_read
    assert bench.batcher.pending_bytes == 0


async def test_a_batch_of_large_blobs_is_bounded_by_its_bytes(bench: Bench) -> None:
    peer = Peer()
    large = Keep(INBOX, hash_sealed_bytes(b"large"), bench.now_ms + 86_400_000, bytes(200_000), leaf=bytes(32))
    bench.batcher.put(peer, range(200), [large] * 200)
    sizes = await batches(bench, peer)
    assert max(sizes) <= 48
    assert sum(sizes) == 200
