"""Leasing: the entries that may leave now, encrypted where they are not yet, and marked as sending (SPEC 3.4).

policy/send_order says which entries of a lane may leave and how lanes are chosen; this module reads and writes rows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from restante.core.outbox import schedule_of
from restante.core.outbox_events import Effect, Event, Leased, TransmitFailed
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.completion import LONGEST_STORED_WAIT_MS
from restante.policy.failures import Failure
from restante.policy.retry import longest_wait_ms
from restante.policy.send_order import MAIL_ROUTES, WINDOW, Choice, choice_key, is_due, leasable
from restante.policy.settings import Settings
from restante.ports.encryptor import Encrypted, EncryptFailed, Encryptor
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.outbox.deadlines import Deadlines
from restante.runtime.sqlite.outbox.entry_cache import CachedEntry, EntryCache
from restante.runtime.sqlite.outbox.lanes import Lane, LaneTable
from restante.runtime.sqlite.outbox.row_codec import ENTRY_COLUMNS, WIDTH, EntryRow, row_of

_SQL: Final = load_queries("outbox/store", entry=ENTRY_COLUMNS)
_STORE_PAYLOAD: Final = _SQL["store_payload"]
StepEntry = Callable[[CachedEntry, Event, int, Encrypted | None], tuple[OutboxEntry, tuple[Effect, ...]]]


def needs_encryption(entry: OutboxEntry) -> bool:
    """Return whether an entry with its body is to be encrypted, first or again; one that came with a payload never
    is."""
    return entry.route in MAIL_ROUTES and not entry.payload and bool(entry.sealed_plaintext)


class Leases:
    """Every method is part of a transaction."""

    def __init__(
        self,
        database: Database,
        lanes: LaneTable,
        cache: EntryCache,
        deadlines: Deadlines,
        *,
        step: StepEntry,
        settings: Settings,
        encryptor: Encryptor | None,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._cache = cache
        self._deadlines = deadlines
        self._step = step
        self._settings = settings
        self.encryptor = encryptor
        self._longest_ms = {route: longest_wait_ms(schedule_of(route, settings)) for route in Route}

    def lease(
        self,
        *,
        owner: str,
        routes: Collection[Route],
        is_connected: Callable[[Route, str], bool],
        limit: int,
        now_ms: int,
        stores_again: bool,
    ) -> list[OutboxEntry]:
        """Lease up to `limit` entries, lane after lane in the order of choice.

        With `stores_again`, entries that were stored before and are due again are among them.
        """
        due: list[tuple[Choice, Lane | EntryRow]] = [
            (lane.choice, lane)
            for lane in self._lanes.with_next(routes)
            if self._is_due(lane, now_ms) and is_connected(lane.route, lane.name)
        ]
        if stores_again:
            self._deadlines.has_rest = False
            due += self._due_again(routes, is_connected, now_ms)
        leased: list[OutboxEntry] = []
        for _, one in sorted(due, key=lambda pair: pair[0]):
            room = limit - len(leased)
            if room <= 0:
                self._deadlines.has_rest |= stores_again
                break
            if isinstance(one, Lane):
                leased += self._lease_run(one, room, owner, now_ms)
            else:
                leased += self._lease_again(one, owner, now_ms)
        return leased

    def _due_again(
        self, routes: Collection[Route], is_connected: Callable[[Route, str], bool], now_ms: int
    ) -> list[tuple[Choice, EntryRow]]:
        """Return the entries that were stored before and may be stored again now: of a lane as many as are not in
        flight already."""
        due: list[tuple[Choice, EntryRow]] = []
        again = self._database.rows(_SQL["again"], now_ms, now_ms + LONGEST_STORED_WAIT_MS)
        in_flight = Counter(dict(self._database.rows(_SQL["sending_again"])) if again else {})
        for row in map(row_of, again):
            longest_ms = LONGEST_STORED_WAIT_MS if row.state == State.SENT else self._longest_ms[Route(row.route)]
            if (
                not is_due(row.next_attempt_at_ms, now_ms=now_ms, longest_wait_ms=longest_ms)
                or row.route not in routes
                or not is_connected(Route(row.route), row.lane)
            ):
                continue
            if in_flight[row.lane_id] >= WINDOW:
                self._deadlines.has_rest = True
                continue
            in_flight[row.lane_id] += 1
            choice = choice_key(priority=row.priority, created_at_ms=row.created_at_ms, queue_number=row.queue_number)
            due.append((choice, row))
        return due

    def _lease_again(self, row: EntryRow, owner: str, now_ms: int) -> list[OutboxEntry]:
        cached = self._cache.add(row)
        [(payload, sealed_plaintext)] = self._database.rows(_SQL["load_body"], row.body_id)
        whole = cached.entry._replace(payload=payload, sealed_plaintext=sealed_plaintext)
        return self._lease_entries([cached], [whole], owner, now_ms)

    def lease_lanes(
        self, lanes: Iterable[tuple[Route, str]], *, owner: str, limit: int, now_ms: int
    ) -> list[OutboxEntry]:
        """Lease what may leave these lanes now."""
        leased: list[OutboxEntry] = []
        for route, name in lanes:
            lane = self._lanes.get(route, name)
            if lane is not None and limit > len(leased):
                leased += self._lease_run(lane, limit - len(leased), owner, now_ms)
        return leased

    def _is_due(self, lane: Lane, now_ms: int) -> bool:
        return lane.due_at_ms is not None and is_due(
            lane.due_at_ms, now_ms=now_ms, longest_wait_ms=self._longest_ms[lane.route]
        )

    def _lease_run(self, lane: Lane, room: int, owner: str, now_ms: int) -> list[OutboxEntry]:
        unsent = self._lanes.unsent(lane)
        run = leasable(lane.route, unsent, now_ms=now_ms, longest_wait_ms=self._longest_ms[lane.route])[:room]
        if not run:
            self._lanes.set_unsent(lane, unsent)
            return []
        cached = self._cache.with_bodies(item.message_id for item in run)
        if cached is not None:
            whole = [one.entry._replace(sealed_plaintext=one.sealed_plaintext or b"") for one in cached]
            return self._lease_entries(cached, whole, owner, now_ms)
        first, last = run[0].queue_number, run[-1].queue_number
        rows = self._database.rows(_SQL["run"], lane.lane_id, first, last, len(run))
        return self._lease_rows(rows, owner, now_ms)

    def _lease_rows(self, rows: Sequence[tuple[Any, ...]], owner: str, now_ms: int) -> list[OutboxEntry]:
        """Lease the entries of rows with bodies."""
        cached = [self._cache.add(row_of(values)) for values in rows]
        whole = [
            one.entry._replace(payload=values[WIDTH], sealed_plaintext=values[WIDTH + 1])
            for one, values in zip(cached, rows, strict=True)
        ]
        return self._lease_entries(cached, whole, owner, now_ms)

    def _lease_entries(
        self, cached: Sequence[CachedEntry], whole: Sequence[OutboxEntry], owner: str, now_ms: int
    ) -> list[OutboxEntry]:
        """Lease entries, `whole` with their bodies. One that cannot be encrypted fails at once (SPEC 4.4, E005, E008);
        those after it that cannot be either stay as they are, behind its wait. On a full disk those that are not yet
        encrypted wait for space."""
        if any(map(needs_encryption, whole)) and not self._database.may_grow():
            return []
        results = self._encrypt(whole, now_ms)
        claim = Leased(owner=owner, until_ms=now_ms + self._settings.outbox.lease_ms)
        leased: list[OutboxEntry] = []
        has_failed = False
        for one, entry, result in zip(cached, whole, results, strict=True):
            if isinstance(result, EncryptFailed):
                if not has_failed:
                    has_failed = True
                    self._step(one, claim, now_ms, None)
                    self._step(one, TransmitFailed(owner=owner, failure=result.failure), now_ms, None)
                continue
            after, _ = self._step(one, claim, now_ms, result)
            if after.state is not State.SENDING:
                continue  # it expired
            payload = entry.payload
            if result is not None:
                payload = result.payload
                self._cache.drop_body(one)
                self._database.defer(_STORE_PAYLOAD, (payload, one.body_id))
            leased.append(after._replace(payload=payload, sealed_plaintext=entry.sealed_plaintext))
        return leased

    def _encrypt(self, entries: Sequence[OutboxEntry], now_ms: int) -> list[Encrypted | EncryptFailed | None]:
        results: list[Encrypted | EncryptFailed | None] = [None] * len(entries)
        wanted = [number for number, entry in enumerate(entries) if needs_encryption(entry)]
        if not wanted:
            return results
        if self.encryptor is None:
            made: Sequence[Encrypted | EncryptFailed] = [EncryptFailed(Failure.ENCRYPTION_FAILED)] * len(wanted)
        else:
            made = self.encryptor.encrypt([entries[number] for number in wanted], now_ms=now_ms)
        for number, result in zip(wanted, made, strict=True):
            results[number] = result
        return results
