"""A bad network around a relay connection: loses puts and their answers, repeats and delays arrivals."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from restante.policy.failures import Failure
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed, RelayConnection, StoredBlob
from restante.wire.storage_receipts import StorageReceipt

_LATE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The probability of each fault, from 0 to 1."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    put_twice: float = 0.0
    blob_twice: float = 0.0
    blob_late: float = 0.0


@dataclass(slots=True)
class FaultCounts:
    requests_lost: int = 0
    answers_lost: int = 0
    puts_repeated: int = 0
    blobs_repeated: int = 0
    blobs_late: int = 0


class LossyConnection:
    """Implements `RelayConnection` on top of another one, with faults drawn from `entropy`.

    A lost request or answer raises the time-out error at once, so that tests do not wait.
    """

    def __init__(self, inner: RelayConnection, faults: Faults, entropy: Entropy, counts: FaultCounts) -> None:
        self._inner = inner
        self._faults = faults
        self._entropy = entropy
        self._counts = counts
        self._again: StoredBlob | None = None
        self._held_back: StoredBlob | None = None

    async def put(self, envelope: bytes) -> StorageReceipt:
        if self._happens(self._faults.request_lost):
            self._counts.requests_lost += 1
            raise AttemptFailed("the request to the relay was lost", failure=Failure.NETWORK_TIMEOUT)
        ack = await self._inner.put(envelope)
        if self._happens(self._faults.put_twice):
            self._counts.puts_repeated += 1
            await self._inner.put(envelope)
        if self._happens(self._faults.answer_lost):
            self._counts.answers_lost += 1
            raise AttemptFailed("the answer of the relay was lost", failure=Failure.NETWORK_TIMEOUT)
        return ack

    async def next_blob(self) -> StoredBlob:
        """Return the next blob. A fault is counted when it takes effect, not when it is drawn."""
        if (again := self._again) is not None:
            self._again = None
            self._counts.blobs_repeated += 1
            return again
        if (late := self._held_back) is not None:
            self._held_back = None
            self._counts.blobs_late += 1
            return late
        blob = await self._inner.next_blob()
        if self._happens(self._faults.blob_twice):
            self._again = blob
        elif self._happens(self._faults.blob_late):
            return await self._overtaking(blob)
        return blob

    async def next_blobs(self) -> list[StoredBlob]:
        """Return the blobs that arrived by now, some of them twice or out of order."""
        came = [await self.next_blob()]
        while self._again is not None or self._held_back is not None:
            came.append(await self.next_blob())
        return came

    async def delete(self, blob_id: int) -> None:
        await self._inner.delete(blob_id)

    async def delete_many(self, blob_ids: Sequence[int]) -> None:
        await self._inner.delete_many(blob_ids)

    async def lost(self) -> None:
        await self._inner.lost()

    async def close(self) -> None:
        await self._inner.close()

    async def _overtaking(self, held_back: StoredBlob) -> StoredBlob:
        """Return the next blob, or the delayed one if no other arrives."""
        try:
            async with asyncio.timeout(_LATE_S):
                overtaking = await self._inner.next_blob()
        except TimeoutError:
            return held_back
        self._held_back = held_back
        return overtaking

    def _happens(self, rate: float) -> bool:
        return (self._entropy.dice() + 1.0) / 2.0 < rate
