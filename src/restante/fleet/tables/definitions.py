"""All tables of SPEC 13.3 to 13.6, put together from the events. Which exist, and what each is made of, stands here.

The rules are in transforms/, one table each. Nothing is computed before somebody asks a table for its rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame

from restante.fleet.transforms.actions import actions
from restante.fleet.transforms.conservation import conservation, missing_events, unaccounted
from restante.fleet.transforms.dead_letters import dead_letters
from restante.fleet.transforms.gaps import gaps
from restante.fleet.transforms.latency import latency, latency_histogram
from restante.fleet.transforms.likely_affected import likely_affected
from restante.fleet.transforms.messages import message_lifecycles, messages
from restante.fleet.transforms.node_scores import node_measures, node_scores
from restante.fleet.transforms.replicas import replicas
from restante.fleet.transforms.security_events import security_events
from restante.fleet.transforms.service_levels import service_levels
from restante.fleet.transforms.withholding import withholding
from restante.fleet.transforms.writer_activity import writer_hours
from restante.policy.dead_letters import DeadLetterRetention


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTables:
    """Each table once, by its name."""

    by_name: Mapping[str, DataFrame]

    def __getitem__(self, name: str) -> DataFrame:
        return self.by_name[name]


def fleet_tables(
    events: DataFrame,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    partitions: int | None = None,
    keep: Callable[[DataFrame], DataFrame] = lambda table: table,
) -> FleetTables:
    """The tables of these events as they stand at `now_ms`; `partitions` as transforms/messages has it.

    `keep` is given each table that others are made from: a caller that wants several tables persists it there, so that
    it is not made anew for each.
    """
    known = keep(message_lifecycles(events, partitions=partitions))
    entries = messages(known)
    keep(writer_hours(events))  # Spark finds it again in every plan that asks for the same
    copies = keep(replicas(events, known))
    withheld = keep(withholding(events, known, copies))
    letters = keep(dead_letters(events, retention))
    scores = keep(node_scores(node_measures(events, known), withheld))
    missing = keep(missing_events(events))
    made = {
        "messages": entries,
        "conservation": conservation(entries),
        "unaccounted": unaccounted(entries),
        "missing_events": missing,
        "likely_affected": likely_affected(events, entries, missing),
        "latency": latency(entries),
        "latency_histogram": latency_histogram(entries),
        "service_levels": service_levels(entries),
        "replicas": copies,
        "withholding": withheld,
        "dead_letters": letters,
        "security_events": security_events(events),
        "gaps": gaps(events),
        "node_scores": scores,
        "actions": actions(
            messages=entries,
            replicas=copies,
            dead_letters=letters,
            withholding=withheld,
            node_scores=scores,
            now_ms=now_ms,
        ),
    }
    return FleetTables(by_name=MappingProxyType(made))
