"""Which filed entries may leave next, and who stands first in a lane that keeps its order (SPEC 3.3, 3.4)."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.send_order import STRICT_ROUTES
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("outbox")


class ReadyQueue:
    """The order of choice, by the indexes of the file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ready(
        self, routes: Iterable[Route], is_connected: Callable[[Route, str], bool], limit: int, now_ms: int
    ) -> list[tuple[Any, ...]]:
        """Rows of up to `limit` entries that may leave now, in the order of choice over all routes (SPEC 3.3)."""
        self._database.run(_SQL["wake_due"], now_ms=now_ms)
        found: list[tuple[Any, ...]] = []
        for route in routes:
            earlier, found = found, self._ready_on(route, is_connected, limit, now_ms)
            if earlier:
                found = sorted(earlier + found, key=lambda row: (-row[7], row[8], row[0]))[:limit]
        return found

    def _ready_on(
        self, route: Route, is_connected: Callable[[Route, str], bool], limit: int, now_ms: int
    ) -> list[tuple[Any, ...]]:
        lanes_down: set[str] = set()
        while True:
            rows = self._database.run(_SQL["ready"], route=route, lanes_down=json.dumps([*lanes_down]), limit=limit)
            down = {lane for lane in {row[5] for row in rows} if not is_connected(route, lane)}
            if any(row[12] > now_ms for row in rows):
                # The clock stepped back, or somebody with a later `now_ms` came first: their time has yet to come.
                self._database.run(_SQL["wait_again"], now_ms=now_ms)
            elif not down:
                return rows
            lanes_down |= down

    def is_behind(self, entry: OutboxEntry) -> bool:
        """Whether an earlier unsent entry of a strict lane stands before this one."""
        if entry.route not in STRICT_ROUTES or entry.state is not State.PENDING or entry.was_sent:
            return False
        return self.head(entry) != [(entry.insertion,)]

    def head(self, entry: OutboxEntry) -> list[tuple[Any, ...]]:
        return self._database.rows(_SQL["head_of_lane"], entry.route, entry.lane)

    def move_on(self, entry: OutboxEntry, now_ms: int) -> None:
        for (insertion,) in self.head(entry):
            self._database.rows(_SQL["give_turn"], now_ms, insertion)
