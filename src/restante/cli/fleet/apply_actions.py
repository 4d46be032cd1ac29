"""Apply actions to a client's or a node's file and count the results."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from restante.model.fleet_actions import ActionKind, FleetAction
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.fleet_actions import ActionResult, ClientActions, NodeActions, take_scoreboard
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.system import SystemClock


def apply_actions(
    kind: str, database: Database, journal: Journal, wanted: Sequence[FleetAction], settings: Settings
) -> dict[tuple[ActionKind, ActionResult], int]:
    """Apply each action in a separate transaction, so that a failure does not undo earlier ones."""
    now_ms = SystemClock().now_ms()
    apply: Callable[[FleetAction], ActionResult]
    if kind == "client":
        apply = partial(
            ClientActions(database, journal, SqliteOutbox(database, journal, settings)).apply, now_ms=now_ms
        )
    else:
        apply = NodeActions(journal).apply
    counts: Counter[tuple[ActionKind, ActionResult]] = Counter()
    scores = [action for action in wanted if action.action is ActionKind.SCOREBOARD]
    for action in wanted:
        if action.action is not ActionKind.SCOREBOARD:
            counts[action.action, apply(action)] += 1
    if scores:
        counts[ActionKind.SCOREBOARD, take_scoreboard(database, journal, scores, now_ms=now_ms)] += 1
    return dict(counts)
