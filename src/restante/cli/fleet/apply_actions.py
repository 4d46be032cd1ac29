"""Apply actions to a client's or a node's file and count the results."""

from collections import Counter
from collections.abc import Sequence

from restante.model.fleet_actions import ActionKind, FleetAction
from restante.policy.settings import Settings
from restante.runtime.journal.node_identity import roles_at_last_start
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.fleet_actions import ActionResult, ClientActions, NodeActions, take_scoreboard
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.system import SystemClock


def apply_actions(
    kind: str, database: Database, journal: Journal, wanted: Sequence[FleetAction], settings: Settings
) -> dict[tuple[ActionKind, ActionResult], int]:
    """Apply a client's actions in a transaction each, so that a failure does not undo earlier ones, and a node's
    together."""
    now_ms = SystemClock().now_ms()
    direct = [action for action in wanted if action.action is not ActionKind.SCOREBOARD]
    if kind == "client":
        client = ClientActions(database, journal, SqliteOutbox(database, journal, settings))
        results = [client.apply(action, now_ms=now_ms) for action in direct]
    else:
        results = NodeActions(database, journal, roles=roles_at_last_start(journal)).apply(direct, now_ms=now_ms)
    counts = Counter(zip([action.action for action in direct], results, strict=True))
    scores = [action for action in wanted if action.action is ActionKind.SCOREBOARD]
    if scores:
        counts[ActionKind.SCOREBOARD, take_scoreboard(database, journal, scores, now_ms=now_ms)] += 1
    return dict(counts)
