"""The dedup cache in SQLite: marks of arrivals, forgotten by recency and age (SPEC 9.2).

A batch asks for all of its arrivals at once and writes all of its marks at once: one by one, that is most of what the
file costs an arrival.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from restante.core.deduplication import (
    CONTENT_FINGERPRINT_BYTES,
    MESSAGE_KEY_BYTES,
    PAYLOAD_FINGERPRINT_BYTES,
    SESSION_FINGERPRINT_BYTES,
    Fingerprint,
)
from restante.policy.dedup import DedupLimits, is_fresh, to_evict
from restante.runtime.sqlite.file.database import Database, load_queries

ENTRY_BYTES: Final = 100
"""What one entry takes of the file at most, its share of index and half-empty pages included; a test measures it."""

_BUCKET_BYTES: Final = 8
_REST_BYTES: Final = MESSAGE_KEY_BYTES - _BUCKET_BYTES
_SESSION_END: Final = _REST_BYTES + SESSION_FINGERPRINT_BYTES
_PAYLOAD_END: Final = _SESSION_END + PAYLOAD_FINGERPRINT_BYTES
_CONTENT_END: Final = _PAYLOAD_END + CONTENT_FINGERPRINT_BYTES
_SWEEP_PAGE: Final = 1_000
_SQL: Final = load_queries("inbox/dedup_index")
_FIND_MANY: Final = _SQL["find_many"]
_REMEMBER: Final = _SQL["remember"]


@dataclass(frozen=True, slots=True)
class KnownArrival:
    """An earlier arrival. `acked_again_at_ms` is when a duplicate of it was last acknowledged; 0 for never."""

    turn: int
    mark: Fingerprint
    acked_again_at_ms: int


DedupRow = tuple[int, bytes, int, int, int]
"""As it is in the file, without its bucket: turn, mark, whether it is acknowledged, when it was seen and last
acknowledged again."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """Entries that had to go, and how many of them before their time; the youngest of those was that old."""

    entries: int
    early: int
    youngest_age_ms: int


class DedupIndex:
    """Knows nothing of totals: how many entries there are is told to it, and it tells how many went.

    What was looked up is remembered until `look_anew`, which every batch begins with.
    """

    def __init__(self, database: Database, limits: DedupLimits) -> None:
        self._database = database
        self._limits = limits
        self._looked_up: dict[bytes, list[DedupRow]] = {}
        database.on_invalidate(self.look_anew)

    def look_anew(self) -> None:
        """Ask the file again: another batch, or somebody else, may have written since."""
        self._looked_up.clear()

    def look_up(self, keys: Iterable[bytes]) -> None:
        """`find` will be asked for these."""
        looked_up = self._looked_up
        fresh = [key for key in keys if key not in looked_up]
        for key in fresh:
            looked_up[key] = []
        # `peek`: what is deferred of this table was looked up before, and is written when its batch ends.
        buckets = json.dumps([_bucket(key) for key in fresh])
        for bucket, turn, raw, *rest in self._database.query_without_writing(_FIND_MANY, buckets):
            known = looked_up.get(bucket.to_bytes(_BUCKET_BYTES, "big", signed=True) + raw[:_REST_BYTES])
            if known is not None:  # another message may have the same bucket
                known.append((turn, raw, *rest))

    def find(self, key: bytes, *, now_ms: int) -> list[KnownArrival]:
        """Every arrival of a message that is still remembered, in whatever session."""
        rows = self._looked_up.get(key)
        if rows is None:
            self.look_up([key])
            rows = self._looked_up[key]
        if not rows:
            return []
        return [
            KnownArrival(turn, _mark(raw, bool(is_acknowledged)), acked_again_at_ms)
            for turn, raw, is_acknowledged, seen_at_ms, acked_again_at_ms in rows
            if is_fresh(self._limits, seen_at_ms=seen_at_ms, now_ms=now_ms)
        ]

    def remember(self, turn: int, key: bytes, mark: Fingerprint, *, now_ms: int) -> None:
        session, payload, content, is_acknowledged = mark
        row = (turn, key[_BUCKET_BYTES:] + session + payload + content, int(is_acknowledged), now_ms)
        known = self._looked_up.get(key)
        if known is not None:
            known.append((*row, 0))
        self._database.defer(_REMEMBER, (_bucket(key), *row))

    def touch(self, key: bytes, known: KnownArrival, turn: int, *, now_ms: int) -> None:
        """Seen again just now."""
        self._database.rows(_SQL["touch"], turn, now_ms, known.turn)
        self._looked_up.pop(key, None)

    def acked_again(self, key: bytes, known: KnownArrival, *, now_ms: int) -> None:
        """Note that a duplicate of this arrival is acknowledged again."""
        self._database.rows(_SQL["acked_again"], now_ms, known.turn)
        self._looked_up.pop(key, None)

    def push_out(self, entries: int, *, now_ms: int) -> Pushed:
        """Make `entries` fit the limits; the least recently seen go first."""
        surplus = to_evict(self._limits, entries=entries, measured_bytes=entries * ENTRY_BYTES)
        if not surplus:
            return Pushed(0, 0, 0)
        self.look_anew()
        rows = self._database.rows(_SQL["forget_oldest"], surplus)
        return self._pushed((seen_at_ms for (seen_at_ms,) in rows), now_ms)

    def sweep(self, *, now_ms: int) -> int:
        """Forget what is past its window; how many went."""
        gone = 0
        self.look_anew()
        while True:
            page = self._database.rows(_SQL["oldest"], _SWEEP_PAGE)
            fresh_from = next(
                (at for at, (seen,) in enumerate(page) if is_fresh(self._limits, seen_at_ms=seen, now_ms=now_ms)),
                len(page),
            )
            if fresh_from:
                self._database.rows(_SQL["forget_oldest"], fresh_from)
                gone += fresh_from
            if fresh_from < _SWEEP_PAGE:
                return gone

    def _pushed(self, seen_at_ms: Iterable[int], now_ms: int) -> Pushed:
        times = list(seen_at_ms)
        early = [at_ms for at_ms in times if is_fresh(self._limits, seen_at_ms=at_ms, now_ms=now_ms)]
        return Pushed(len(times), len(early), now_ms - max(early, default=now_ms))


def _bucket(key: bytes) -> int:
    return int.from_bytes(key[:_BUCKET_BYTES], "big", signed=True)


def _mark(raw: bytes, is_acknowledged: bool) -> Fingerprint:
    return Fingerprint(
        raw[_REST_BYTES:_SESSION_END], raw[_SESSION_END:_PAYLOAD_END], raw[_PAYLOAD_END:_CONTENT_END], is_acknowledged
    )
