"""How much the outbox holds, and what was accepted but not filed yet (SPEC 3.6).

An accepted message is durable as a row of `body` alone; it gets its place among the others later, together with many,
before anything happens that concerns it. Counts are kept in memory as long as nobody else writes to the file.
"""

from collections import Counter
from typing import Any, Final

from restante.model.states import Route
from restante.policy.send_order import STRICT_ROUTES
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.id_index import IdBlocks
from restante.runtime.sqlite.outbox.new_entry import NewEntry

FILE_AT: Final = 512
"""Arrivals that may wait to be filed: enough to share the work, few enough that a reader can look through them."""

FILED_TO_ARRIVED: Final = 128
"""More may wait beside many that are filed: ids are random, so that one arrival in a thousand-page block of them writes
a page of its own, while a fair share of all entries puts several into each page."""

_NO_PRIORITY: Final = -1
_NEVER_MS: Final = 2**63 - 1

_SQL: Final = load_queries("outbox")
_STORE_TOTALS: Final = _SQL["store_totals"]


class OutboxTotals:
    """Counts of one file, right inside every transaction; written back before it ends."""

    def __init__(self, database: Database, blocks: IdBlocks) -> None:
        self._database = database
        self._blocks = blocks
        self._is_known = False
        self._is_changed = False
        self._entries = 0
        self._bytes = 0
        self._filed_through = 0
        self._new_entries = 0
        self._new_bytes = 0
        self._new_by_lane: Counter[tuple[Route, str]] = Counter()
        self._new_priority: int = _NO_PRIORITY  # the highest, the earliest, and the first to be looked at
        self._new_created_at_ms = self._new_attention_at_ms = _NEVER_MS
        self._pending: dict[str, int] = {}
        self._changed_lanes: set[str] = set()
        database.on_invalidate(self._forget)
        database.before_commit(self._settle)

    def held(self) -> tuple[int, int]:
        """Entries and bytes in flight, filed or not."""
        if not self._is_known:
            self._read()
        return self._entries + self._new_entries, self._bytes + self._new_bytes

    def pending_in_relay_lane(self, lane: str) -> int:
        return self._filed_pending(lane) + self._new_by_lane[Route.RELAY, lane]

    def arrived(self, arrival: NewEntry) -> bool:
        """A body was added; whether it is time to file."""
        route, priority, created_at_ms, attention_at_ms = arrival[2], arrival[5], arrival[6], arrival[11]
        self._new_entries = new_entries = self._new_entries + 1
        self._new_bytes += arrival[1]
        if route in STRICT_ROUTES:
            self._new_by_lane[route, arrival[3]] += 1
        if (
            priority > self._new_priority
            or created_at_ms < self._new_created_at_ms
            or attention_at_ms < self._new_attention_at_ms
        ):
            self._new_priority = max(self._new_priority, priority)
            self._new_created_at_ms = min(self._new_created_at_ms, created_at_ms)
            self._new_attention_at_ms = min(self._new_attention_at_ms, attention_at_ms)
        return new_entries >= FILE_AT and new_entries * FILED_TO_ARRIVED >= self._entries

    def may_stay_unfiled(self) -> bool:
        """Whether arrivals are so few beside the rest that each would write a page of its own if filed now."""
        if not self._is_known:
            self._read()
        return self._new_entries > 0 and self._new_entries * FILED_TO_ARRIVED <= self._entries

    def are_behind(self, row: tuple[Any, ...]) -> bool:
        """Whether every arrival is chosen after this entry, which is filed: by the order of `ready` in sql/outbox."""
        insertion, priority, created_at_ms = row[0], row[7], row[8]
        chosen = (-priority, created_at_ms, insertion)
        return chosen <= (-self._new_priority, self._new_created_at_ms, self._filed_through)

    def file_before_a_sweep(self, *, now_ms: int) -> None:
        """Unless they may stay, and time has changed none of them."""
        if not self.may_stay_unfiled() or self._new_attention_at_ms <= now_ms:
            self.flush(now_ms=now_ms)

    def flush(self, *, now_ms: int) -> None:
        """Give every arrival its place in the order of choice; in a strict lane only its first entry can be chosen."""
        if not self._is_known:
            self._read()
        if not self._new_entries:
            return
        self._database.rows(_SQL["journal_arrivals"], self._filed_through)
        self._database.rows(_SQL["file_arrivals"], now_ms, self._filed_through)
        for (route, lane), count in self._new_by_lane.items():
            for (insertion,) in self._database.rows(_SQL["head_of_lane"], route, lane):
                self._database.rows(_SQL["give_turn"], now_ms, insertion)
            if route is Route.RELAY:
                self.count_pending(lane, count)
        filed_before = self._filed_through
        [(self._filed_through,)] = self._database.rows(_SQL["last_body"])
        self._blocks.added(filed_before + 1, self._filed_through)
        self.count(self._new_entries, self._new_bytes)
        self._new_entries = self._new_bytes = 0
        self._new_by_lane.clear()
        self._new_priority = _NO_PRIORITY
        self._new_created_at_ms = self._new_attention_at_ms = _NEVER_MS
        self._store_totals()  # at once: whoever reads on in this transaction must not see an arrival twice

    def count(self, entries: int, size_bytes: int) -> None:
        """So many filed entries and bytes more, or less."""
        if not self._is_known:
            self._read()
        self._entries += entries
        self._bytes += size_bytes
        self._is_changed = True

    def count_pending(self, lane: str, more: int) -> None:
        self._pending[lane] = self._filed_pending(lane) + more
        self._changed_lanes.add(lane)

    def _forget(self) -> None:
        self._is_known = self._is_changed = False
        self._pending.clear()
        self._changed_lanes.clear()

    def _store_totals(self) -> None:
        self._database.defer(_STORE_TOTALS, (self._entries, self._bytes, self._filed_through))
        self._is_changed = False

    def _settle(self) -> None:
        if self._is_changed:
            self._store_totals()
        for lane in self._changed_lanes:
            self._database.defer(_SQL["store_pending"], (lane, self._pending[lane]))
        self._changed_lanes.clear()

    def _filed_pending(self, lane: str) -> int:
        pending = self._pending.get(lane)
        if pending is None:
            rows = self._database.query_without_writing(_SQL["pending_in_lane"], lane)
            self._pending[lane] = pending = rows[0][0] if rows else 0
        return pending

    def _read(self) -> None:
        [(self._entries, self._bytes, self._filed_through)] = self._database.rows(_SQL["totals"])
        arrivals = self._database.rows(_SQL["count_arrivals"], self._filed_through)
        self._new_entries = sum(row[2] for row in arrivals)
        self._new_bytes = sum(row[3] for row in arrivals)
        self._new_by_lane = Counter({(Route(row[0]), row[1]): row[2] for row in arrivals if row[0] in STRICT_ROUTES})
        self._new_priority = max((row[4] for row in arrivals), default=_NO_PRIORITY)
        self._new_created_at_ms = min((row[5] for row in arrivals), default=_NEVER_MS)
        self._new_attention_at_ms = min((row[6] for row in arrivals), default=_NEVER_MS)
        self._is_known = True
