"""A node's journal leaves by itself where journal.ship_to names a depot (SPEC 13.1).

Decides what is logged about it: that it fails, once, and that it works again. Trouble with that depot is none of the
mail's, so it changes nothing in whether the node counts as healthy.
"""

from dataclasses import asdict
from typing import Any

from restante.node.config import NodeConfig
from restante.node.safe_logging import Event, Level, log
from restante.ports.clock import Clock
from restante.ports.commit_queue import CommitQueue
from restante.runtime.journal.shipper import Shipper, shipping_to
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy


def shipper_of(
    config: NodeConfig, database: Database, journal: Journal, *, commits: CommitQueue, clock: Clock
) -> Shipper | None:
    """None where nothing is to be shipped."""
    if config.ship_to is None:
        return None
    shipper = Shipper(
        database,
        journal,
        shipping_to(config.ship_to),
        schema="node",
        commits=commits,
        settings=config.settings.journal,
        clock=clock,
        entropy=SystemEntropy(),
        on_trouble=lambda problem: _tell_trouble(shipper, problem),
        on_recovery=lambda: log(Level.INFO, Event.SHIPPING_RECOVERED),
    )
    return shipper


def shipping_data(shipper: Shipper | None) -> dict[str, Any] | None:
    """For the status page; None where nothing is shipped."""
    if shipper is None:
        return None
    figures = shipper.figures()
    return {"failing": figures.is_failing} | asdict(figures)


def _tell_trouble(shipper: Shipper, problem: Exception) -> None:
    """The first of a row; the others at the level `debug`, for the figures count them."""
    first = shipper.figures().failures_in_a_row == 1
    log(Level.WARNING if first else Level.DEBUG, Event.SHIPPING_FAILED, problem)
