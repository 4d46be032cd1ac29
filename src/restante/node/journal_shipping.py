"""Ships a node's journal where `journal.ship_to` names a segment store (SPEC 13.1).

Logs the first failure and the recovery. A failing segment store does not make the node unhealthy: mail is unaffected.
"""

from dataclasses import asdict
from typing import Any

from restante.node.config import NodeConfig
from restante.node.safe_logging import Event, Level, log
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.runtime.journal.key_file import journal_key
from restante.runtime.journal.shipper import Shipper, shipping_to
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy


def shipper_of(
    config: NodeConfig, database: Database, journal: Journal, *, commits: CommitQueue, clock: Clock
) -> Shipper | None:
    """Return the node's shipper; None if nothing is to be shipped."""
    if config.ship_to is None:
        return None
    shipper = Shipper(
        database,
        journal,
        shipping_to(config.ship_to, journal_key(database.path, SystemEntropy())),
        schema="node",
        commits=commits,
        settings=config.settings.journal,
        clock=clock,
        entropy=SystemEntropy(),
        on_trouble=lambda problem: _log_failure(shipper, problem),
        on_recovery=lambda: log(Level.INFO, Event.SHIPPING_RECOVERED),
    )
    return shipper


def shipping_data(shipper: Shipper | None) -> dict[str, Any] | None:
    """Return the stats of shipping for the status page; None if nothing is shipped."""
    if shipper is None:
        return None
    stats = shipper.stats()
    return {"failing": stats.is_failing} | asdict(stats)


def _log_failure(shipper: Shipper, problem: Exception) -> None:
    """Log the first failure of a row as a warning, the others at level `debug`."""
    first = shipper.stats().failures_in_a_row == 1
    log(Level.WARNING if first else Level.DEBUG, Event.SHIPPING_FAILED, problem)
