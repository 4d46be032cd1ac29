"""The guards of a client in its file, so that a restart chooses no others (SPEC 11.4)."""

from typing import Final

from restante.model.ids import NodeId
from restante.policy.circuits.guards import Guard, GuardState
from restante.runtime.sqlite.file.database import Database, load_queries

_SQL: Final = load_queries("guard_state")


class StoredGuards:
    """Methods are called inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> GuardState:
        sample = tuple(NodeId(node) for (node,) in self._database.rows(_SQL["sample"]))
        guards = tuple(
            Guard(
                node_id=NodeId(node),
                chosen_at_ms=chosen_at_ms,
                kept_until_ms=kept_until_ms,
                last_listed_ms=last_listed_ms,
            )
            for node, chosen_at_ms, kept_until_ms, last_listed_ms in self._database.rows(_SQL["guards"])
        )
        return GuardState(sample=sample, guards=guards)

    def store(self, state: GuardState) -> None:
        """Keep this state in place of the earlier one."""
        self._database.rows(_SQL["forget_sample"])
        self._database.rows(_SQL["forget_guards"])
        for node in state.sample:
            self._database.rows(_SQL["add_to_sample"], node)
        for each in state.guards:
            row = (each.node_id, each.chosen_at_ms, each.kept_until_ms, each.last_listed_ms)
            self._database.rows(_SQL["add_guard"], *row)
