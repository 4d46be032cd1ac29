"""Applies the actions that the fleet proposes (SPEC 13.6).

A proposal is made from journal events that may be old. It is applied only if the file is still in the state it names,
in one transaction with its journal event. Applied again, it is already done, so that no table of done actions is
needed.
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from restante.core.fleet.repair_proposals import open_proposals
from restante.core.outbox_events import Recovered, RetransmitRequested
from restante.core.retransmit import PAUSE_MS
from restante.model.errors import OutboxFull
from restante.model.fleet_actions import ActionKind, FleetAction
from restante.model.ids import MessageId, NodeId, PayloadHash
from restante.model.journal import ASKED_BY_FLEET, JournalKind
from restante.model.node_descriptor import Role
from restante.model.states import State
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mesh.repair_requests import known_hashes, request_round, requested_as_of_ms
from restante.runtime.sqlite.outbox.store import SqliteOutbox

SCOREBOARD_KEY: Final = "scoreboard"
SCORES_KEPT: Final = 10_000

_SQL: Final = load_queries("outbox/fleet_actions")


class ActionResult(StrEnum):
    """The result of one proposal."""

    DONE = "done"
    ALREADY_DONE = "already done"
    """The state of the message or of its copy has changed since, or the action was applied before."""
    NOT_MINE = "not for this file"
    OUTBOX_FULL = "outbox full"
    """A full outbox recovers nothing; the dead letter stays due."""
    NOT_SUPPORTED = "not supported"
    """Replica repair: only nodes with this role hold copies of the mesh."""


class ClientActions:
    """Actions that a client applies: retransmit, recover a dead letter, store scores."""

    def __init__(self, database: Database, journal: Journal, outbox: SqliteOutbox) -> None:
        self._database = database
        self._journal = journal
        self._outbox = outbox

    def apply(self, action: FleetAction, *, now_ms: int) -> ActionResult:
        """Apply one proposal. Scores are applied by `take_scoreboard`, all of them together."""
        if action.target != self._journal.writer or action.message_id is None:
            return ActionResult.NOT_MINE
        with self._database.transaction():
            match action.action:
                case ActionKind.REDRIVE:
                    return self._redrive(action.message_id, action.event_at_ms, now_ms)
                case ActionKind.RETRANSMIT:
                    return self._retransmit(action.message_id, action.event_at_ms, now_ms)
        return ActionResult.NOT_MINE

    def _redrive(self, message_id: MessageId, moved_at_ms: int | None, now_ms: int) -> ActionResult:
        """Retry a dead letter (SPEC 5.3) if it is the one that the fleet saw and its daily retry is due."""
        letter = self._outbox.dead_letters.load(message_id)
        if letter is None or letter.moved_at_ms != moved_at_ms:
            return ActionResult.ALREADY_DONE
        if letter.retry_at_ms is None or letter.retry_at_ms > now_ms:
            return ActionResult.ALREADY_DONE
        try:
            self._outbox.apply(message_id, Recovered(is_automatic=True), now_ms=now_ms)
        except OutboxFull:
            return ActionResult.OUTBOX_FULL
        return ActionResult.DONE

    def _retransmit(self, message_id: MessageId, tried_at_ms: int | None, now_ms: int) -> ActionResult:
        """Send the same sealed bytes again, unless there was an attempt since, or one just now."""
        entry = self._outbox.load(message_id)
        if entry is None or entry.state is not State.SENT or entry.last_attempt_at_ms != tried_at_ms:
            return ActionResult.ALREADY_DONE
        is_young = entry.last_attempt_at_ms is not None and now_ms < entry.last_attempt_at_ms + PAUSE_MS
        if is_young or entry.next_attempt_at_ms <= now_ms:
            return ActionResult.ALREADY_DONE
        self._outbox.apply(message_id, RetransmitRequested(), now_ms=now_ms)
        self._journal.append(
            JournalKind.RETRANSMIT_REQUESTED,
            at_ms=now_ms,
            message_id=message_id,
            message_kind=entry.kind,
            priority=entry.priority,
            code=ASKED_BY_FLEET,
        )
        return ActionResult.DONE


class NodeActions:
    """Actions that a node applies. None of them deletes a blob (SPEC 13.6). `roles` are those of its last start."""

    def __init__(self, database: Database, journal: Journal, *, roles: Role) -> None:
        self._database = database
        self._journal = journal
        self._is_storage = Role.STORAGE in roles

    def apply(self, proposals: Sequence[FleetAction], *, now_ms: int) -> list[ActionResult]:
        """Apply proposals together, because one round of copies serves all; return the result of each.

        Scores are applied by `take_scoreboard`.
        """
        mine = [each for each in proposals if self._is_mine(each)]
        requested = self._request_copies(mine, now_ms) if self._is_storage and mine else frozenset()
        return [self._result(each, requested) for each in proposals]

    def _is_mine(self, action: FleetAction) -> bool:
        is_repair = action.action is ActionKind.REPAIR and action.payload_hash is not None
        return is_repair and action.target == self._journal.writer

    def _request_copies(self, proposals: Sequence[FleetAction], now_ms: int) -> frozenset[PayloadHash]:
        """Record that a round of copies is wanted; return for which blobs.

        What the node holds is read before the transaction: it takes long in a big file, and a running node could store
        nothing meanwhile. A copy that comes in between costs a round that finds nothing to do.
        """
        known = known_hashes(self._database, [each.payload_hash for each in proposals if each.payload_hash])
        with self._database.transaction():
            applied_as_of_ms = requested_as_of_ms(self._database)
            wanted = open_proposals(proposals, known=known, applied_as_of_ms=applied_as_of_ms)
            if wanted:
                request_round(self._database, as_of_ms=max(each.as_of_ms for each in wanted))
            for each in wanted:
                self._journal.append(
                    JournalKind.RETRANSMIT_REQUESTED,
                    at_ms=now_ms,
                    payload_hash=each.payload_hash,
                    code=ASKED_BY_FLEET,
                )
        return frozenset(each.payload_hash for each in wanted if each.payload_hash)

    def _result(self, action: FleetAction, requested: frozenset[PayloadHash]) -> ActionResult:
        if not self._is_mine(action):
            return ActionResult.NOT_MINE
        if not self._is_storage:
            return ActionResult.NOT_SUPPORTED
        return ActionResult.DONE if action.payload_hash in requested else ActionResult.ALREADY_DONE


def take_scoreboard(database: Database, journal: Journal, scores: list[FleetAction], *, now_ms: int) -> ActionResult:
    """Store the scores of nodes, all of the same time. An older scoreboard never replaces a newer one."""
    if not scores:
        return ActionResult.ALREADY_DONE
    as_of_ms = max(action.as_of_ms for action in scores)
    newest = [action for action in scores if action.as_of_ms == as_of_ms][:SCORES_KEPT]
    board = {action.node.hex(): action.score for action in newest if action.node is not None}
    with database.transaction():
        known = _stored_board(database)
        if known is not None and known["as_of_ms"] >= as_of_ms:
            return ActionResult.ALREADY_DONE
        value = json.dumps({"as_of_ms": as_of_ms, "scores": board}).encode()
        database.run(_SQL["set_meta"], key=SCOREBOARD_KEY, value=value)
        journal.append(JournalKind.SCOREBOARD_APPLIED, at_ms=now_ms, latency_ms=now_ms - as_of_ms)
    return ActionResult.DONE


def scoreboard(database: Database) -> dict[NodeId, float]:
    """Return the scores that were last applied; empty before the first."""
    known = _stored_board(database)
    return {} if known is None else {NodeId(bytes.fromhex(node)): score for node, score in known["scores"].items()}


def _stored_board(database: Database) -> dict[str, Any] | None:
    rows = database.run(_SQL["get_meta"], key=SCOREBOARD_KEY)
    return json.loads(rows[0][0]) if rows else None
