"""The bad network: it does exactly as much harm as it counts, and the same harm for the same seed."""

import asyncio
from collections.abc import Sequence
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.mesh_proofs.receipts import sign_receipts_of_commit
from restante.crypto.identity import Identity
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed, ConnectionLost, StoredBlob
from restante.testing import lossy_connection
from restante.testing.deterministic import SeededEntropy
from restante.testing.lossy_connection import FaultCounts, Faults, LossyConnection
from restante.wire.storage_receipts import StorageReceipt

[ACK] = sign_receipts_of_commit(Identity(b"n" * 32), [b"h" * 32], now_ms=5)


class GoodLink:
    """Takes every put, and has `blobs` blobs to give; then it is gone, or merely silent."""

    def __init__(self, blobs: int = 0, *, then_silent: bool = False) -> None:
        self.puts: list[bytes] = []
        self.deleted: list[int] = []
        self.is_closed = False
        self._ids = iter(range(1, blobs + 1))
        self._then_silent = then_silent

    async def put(self, envelope: bytes) -> StorageReceipt:
        self.puts.append(envelope)
        return ACK

    async def next_blob(self) -> StoredBlob:
        for blob_id in self._ids:
            return StoredBlob(blob_id=blob_id, stored_at_ms=0, envelope=b"")
        if self._then_silent:
            await asyncio.Event().wait()
        raise ConnectionLost

    async def next_blobs(self) -> list[StoredBlob]:
        return [await self.next_blob()]

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        for blob_id in blob_ids:
            await self.delete(blob_id)

    async def delete(self, blob_id: int) -> None:
        self.deleted.append(blob_id)

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.is_closed = True


async def put_all(link: LossyConnection, count: int) -> list[Failure | None]:
    """How each put failed; None where it was acknowledged."""
    outcomes: list[Failure | None] = []
    for number in range(count):
        try:
            assert await link.put(b"%d" % number) == ACK
            outcomes.append(None)
        except AttemptFailed as failed:
            outcomes.append(failed.failure)
    return outcomes


async def take_all(link: LossyConnection) -> list[int]:
    """The ids of all blobs until the link is gone."""
    ids = []
    while True:
        try:
            ids.append((await link.next_blob()).blob_id)
        except ConnectionLost:
            return ids


def bad(inner: GoodLink, faults: Faults, seed: int = 1) -> tuple[LossyConnection, FaultCounts]:
    counts = FaultCounts()
    return LossyConnection(inner, faults, SeededEntropy(seed), counts), counts


async def test_without_faults_everything_passes() -> None:
    inner = GoodLink(3)
    link, counts = bad(inner, Faults())
    assert await put_all(link, 3) == [None] * 3
    assert await take_all(link) == [1, 2, 3]
    await link.delete(7)
    await link.close()
    assert (inner.puts, inner.deleted, inner.is_closed) == ([b"0", b"1", b"2"], [7], True)
    assert counts == FaultCounts()


async def test_a_lost_request_never_arrives() -> None:
    inner = GoodLink()
    link, counts = bad(inner, Faults(request_lost=1.0))
    assert await put_all(link, 3) == [Failure.NETWORK_TIMEOUT] * 3
    assert inner.puts == []
    assert counts == FaultCounts(requests_lost=3)


async def test_a_lost_answer_is_one_to_a_put_that_arrived() -> None:
    inner = GoodLink()
    link, counts = bad(inner, Faults(answer_lost=1.0))
    assert await put_all(link, 2) == [Failure.NETWORK_TIMEOUT] * 2
    assert inner.puts == [b"0", b"1"]
    assert counts == FaultCounts(answers_lost=2)


async def test_a_put_may_arrive_twice_and_is_answered_once() -> None:
    inner = GoodLink()
    link, counts = bad(inner, Faults(put_twice=1.0))
    assert await put_all(link, 2) == [None] * 2
    assert inner.puts == [b"0", b"0", b"1", b"1"]
    assert counts == FaultCounts(puts_repeated=2)


async def test_a_blob_may_come_twice() -> None:
    link, counts = bad(GoodLink(2), Faults(blob_twice=1.0))
    assert await take_all(link) == [1, 1, 2, 2]
    assert counts == FaultCounts(blobs_repeated=2)


async def test_a_repeat_that_never_came_is_not_counted() -> None:
    link, counts = bad(GoodLink(1), Faults(blob_twice=1.0))
    await link.next_blob()
    assert counts == FaultCounts()


async def test_a_late_blob_comes_after_the_next_one() -> None:
    link, counts = bad(GoodLink(4), Faults(blob_late=1.0))
    assert await take_all(link) == [2, 1, 4, 3]
    assert counts == FaultCounts(blobs_late=2)


async def test_a_blob_that_nothing_overtakes_comes_by_itself_and_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lossy_connection, "_LATE_S", 0.0)
    link, counts = bad(GoodLink(1, then_silent=True), Faults(blob_late=1.0))
    assert (await link.next_blob()).blob_id == 1
    assert counts == FaultCounts()


async def test_a_blob_held_back_when_the_link_goes_is_not_counted_as_late() -> None:
    """It will come again in the next session, by the relay's own rule."""
    link, counts = bad(GoodLink(1), Faults(blob_late=1.0))
    assert await take_all(link) == []
    assert counts == FaultCounts()


RATES = st.floats(0, 1)
ANY_FAULTS = st.builds(
    Faults, request_lost=RATES, answer_lost=RATES, put_twice=RATES, blob_twice=RATES, blob_late=RATES
)


@given(faults=ANY_FAULTS, seed=st.integers(0, 1_000))
def test_the_counts_are_what_happened(faults: Faults, seed: int) -> None:
    async def check() -> None:
        inner = GoodLink(50)
        link, counts = bad(inner, faults, seed)
        outcomes = await put_all(link, 50)
        assert outcomes.count(Failure.NETWORK_TIMEOUT) == counts.requests_lost + counts.answers_lost
        assert len(inner.puts) == 50 - counts.requests_lost + counts.puts_repeated
        taken = await take_all(link)
        firsts = list(dict.fromkeys(taken))
        assert len(taken) - len(firsts) == counts.blobs_repeated
        assert sum(blob_id < max(firsts[: place + 1]) for place, blob_id in enumerate(firsts)) == counts.blobs_late
        assert set(range(1, 50)) <= set(firsts)  # only the last can be held back when the link goes

    asyncio.run(check())


@given(faults=ANY_FAULTS, seed=st.integers(0, 1_000))
def test_the_same_seed_does_the_same_harm(faults: Faults, seed: int) -> None:
    async def story() -> tuple[object, ...]:
        inner = GoodLink(30)
        link, counts = bad(inner, faults, seed)
        return await put_all(link, 30), await take_all(link), inner.puts, astuple(counts)

    assert asyncio.run(story()) == asyncio.run(story())


async def test_harm_comes_about_as_often_as_asked_for() -> None:
    link, counts = bad(GoodLink(), Faults(request_lost=0.25), seed=5)
    await put_all(link, 10_000)
    assert 2_300 < counts.requests_lost < 2_700
