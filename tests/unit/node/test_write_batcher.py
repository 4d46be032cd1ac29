"""The intake: what is committed together, and what is said to whom once it is on disk or could not be."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from restante.core.mailbox import Keep
from restante.core.signed_acks import Evidence, is_evidence_by
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import StoreUnusable
from restante.model.ids import InboxKey
from restante.node.client_connection import ClientConnection
from restante.node.stats import RelayCounters, RelayEvent
from restante.node.write_batcher import MAX_BATCH_PUTS, QUICK_DISK_S, SMALL_BATCH, WHOLE_BATCH_PUTS, WriteBatcher
from restante.policy.quota import MailboxQuota, Refusal
from restante.testing.deterministic import FakeClock
from restante.testing.memory_mailbox import MemoryMailbox
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames import codec
from support.spec.clauses import clause

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
    """Stands where a session stands; keeps what it was told."""

    def __init__(self) -> None:
        self.transport = object()
        self.waiting_bytes = 0
        self.evidence: list[codec.Stored] = []
        self.refusals: list[tuple[int, Refusal]] = []

    def send(self, raw: bytes) -> None:
        for _, frame in codec.FrameReader().feed(raw):
            assert isinstance(frame, codec.Stored)
            self.evidence.append(frame)

    def refuse(self, request: int, refused: Refusal) -> None:
        self.refusals.append((request, refused))

    def resume_reading_if_clear(self) -> None: ...


async def turns() -> None:
    """As many turns of the loop as a batch may take from one step to the next."""
    for _ in range(5):
        await asyncio.sleep(0)


class Desk:
    """An intake with everything around it."""

    def __init__(self) -> None:
        self.disk, self.store, self.tally = SlowDisk(), MemoryMailbox(), RelayCounters()
        self.events: list[RelayEvent] = []
        self.announced: list[InboxKey] = []
        self.time_s = 0.0
        self.intake = WriteBatcher(
            NODE,
            self.store,
            self.disk,
            quota=MailboxQuota(),
            clock=FakeClock(),
            tally=self.tally,
            tell=lambda event, _code: self.events.append(event),
            announce=self.announced.extend,
            time_s=lambda: self.time_s,
        )
        self.now_ms = FakeClock().now_ms()

    def keeps(self, count: int) -> list[Keep]:
        texts = [b"%d" % number for number in range(count)]
        return [Keep(INBOX, hash_sealed_bytes(text), self.now_ms + 86_400_000, text) for text in texts]

    def put(self, peer: Peer, count: int) -> list[Keep]:
        keeps = self.keeps(count)
        self.intake.put(cast("ClientConnection", peer), range(1, count + 1), keeps)
        return keeps


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def batches(desk: Desk, peer: Peer) -> list[int]:
    """How many puts each commit held, until all are answered."""
    await turns()
    sizes: list[int] = []
    while desk.disk.under_way is not None:
        before = sum(len(stored.requests) for stored in peer.evidence)
        await desk.disk.end()
        sizes.append(sum(len(stored.requests) for stored in peer.evidence) - before)
    return sizes


@clause("6.2")
@pytest.mark.parametrize(
    ("puts", "sizes"),
    [
        (1, [1]),
        (WHOLE_BATCH_PUTS, [WHOLE_BATCH_PUTS]),
        (WHOLE_BATCH_PUTS + 22, [128, 22]),
        (1_024, [512, 256, 128, 128]),
        (4_096, [MAX_BATCH_PUTS, MAX_BATCH_PUTS, MAX_BATCH_PUTS, 512, 256, 128, 128]),
    ],
)
async def test_of_many_that_wait_half_are_written_at_a_time_few_go_whole(
    desk: Desk, puts: int, sizes: list[int]
) -> None:
    peer = Peer()
    desk.put(peer, puts)
    assert await batches(desk, peer) == sizes
    assert (desk.intake.waiting_puts, desk.intake.waiting_bytes, peer.waiting_bytes) == (0, 0, 0)


async def test_what_several_connections_bring_in_one_turn_is_one_commit(desk: Desk) -> None:
    peers = [Peer() for _ in range(10)]
    for peer in peers:
        desk.put(peer, 3)
    await turns()
    await desk.disk.end()
    assert desk.disk.began == 1
    assert [len(stored.requests) for peer in peers for stored in peer.evidence] == [3] * 10


@pytest.mark.parametrize(("puts", "apart"), [(SMALL_BATCH, False), (SMALL_BATCH + 1, True)])
async def test_only_a_few_puts_may_keep_the_loop_waiting_for_the_disk(desk: Desk, puts: int, apart: bool) -> None:
    desk.put(Peer(), puts)
    await turns()
    assert desk.disk.apart == [apart]


async def test_a_disk_that_was_quick_is_waited_for_on_the_loop_until_it_is_slow(desk: Desk) -> None:
    for took_s in (QUICK_DISK_S, QUICK_DISK_S + 0.001, 0.0, 0.0):
        desk.put(Peer(), SMALL_BATCH + 1)
        await turns()
        desk.time_s += took_s
        await desk.disk.end()
    assert desk.disk.apart == [True, False, True, False]


@clause("1.3")
@pytest.mark.parametrize("puts", [1, SMALL_BATCH + 1])
async def test_evidence_is_signed_ahead_but_given_only_after_the_commit(desk: Desk, puts: int) -> None:
    peer = Peer()
    keeps = desk.put(peer, puts)
    await turns()
    assert peer.evidence == []
    assert desk.announced == []
    await desk.disk.end()
    [stored] = peer.evidence
    hashes = tuple(keep.payload_hash for keep in keeps)
    assert is_evidence_by(Evidence(batch=stored.batch, sealed_hashes=hashes), NODE.node_key)
    assert stored.requests == tuple(range(1, puts + 1))
    assert desk.announced == [INBOX]


@clause("1.3")
@pytest.mark.parametrize("puts", [1, SMALL_BATCH + 1])
async def test_what_was_signed_ahead_is_never_given_when_the_commit_fails(desk: Desk, puts: int) -> None:
    peer = Peer()
    desk.put(peer, puts)
    await turns()
    await desk.disk.end(StoreUnusable("node.db: the disk is full or failing"))
    assert peer.evidence == []
    assert [request for request, _ in peer.refusals] == list(range(1, puts + 1))
    assert {(refused.permanent, refused.code) for _, refused in peer.refusals} == {(False, Code.STORAGE_FAILED)}
    assert desk.announced == []
    assert (desk.tally.puts_stored, desk.intake.waiting_puts, peer.waiting_bytes) == (0, 0, 0)
    assert desk.events == [RelayEvent.STORE_FAILED]


async def test_a_store_that_works_again_is_told_of_once(desk: Desk) -> None:
    peer = Peer()
    for problem in (StoreUnusable("full"), StoreUnusable("full"), None, None):
        desk.put(peer, 1)
        await turns()
        await desk.disk.end(problem)
    assert desk.events == [RelayEvent.STORE_FAILED, RelayEvent.STORE_RECOVERED]
    assert len(peer.evidence) == len(peer.refusals) == 2


async def test_what_comes_while_a_batch_is_committed_is_in_the_next(desk: Desk) -> None:
    early, late = Peer(), Peer()
    desk.put(early, 1)
    await turns()
    desk.put(late, 1)
    await turns()
    assert desk.disk.began == 1
    await desk.disk.end()
    assert (len(early.evidence), len(late.evidence), desk.disk.began) == (1, 0, 2)
    finished = asyncio.create_task(desk.intake.finished())
    await turns()
    assert not finished.done()
    await desk.disk.end()
    assert len(late.evidence) == 1
    assert finished.done()
