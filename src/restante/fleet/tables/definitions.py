"""All published tables of SPEC 13.3 to 13.6. Docs, data contract, publishing and tests iterate over `TABLES`.

The rules are in transforms/, one table each. Building a table computes nothing before its rows are read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from restante.fleet.tables.base_tables import BASE
from restante.fleet.tables.derived_tables import DERIVED
from restante.fleet.tables.journal_schema import JOURNAL_COLUMNS, SOURCE_FILE
from restante.fleet.tables.table import Made, Table
from restante.fleet.transforms.actions import actions
from restante.model.provenance import Certainty, Provenance
from restante.policy.dead_letters import DeadLetterRetention

TABLES: Final[Mapping[str, Table]] = MappingProxyType({table.name: table for table in (*BASE, *DERIVED)})

Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTables:
    """Each derived table once, by its name."""

    by_name: Mapping[str, DataFrame]

    def __getitem__(self, name: str) -> DataFrame:
        return self.by_name[name]


def fleet_tables(
    events: DataFrame,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    partitions: int | None = None,
    keep: Keep = lambda table: table,
) -> FleetTables:
    """Build the derived tables of these events as of `now_ms`; `partitions` as in transforms/messages.

    `keep` gets each table that others are built from: a caller that wants several tables caches it there.
    """
    made = Made(events=events, now_ms=now_ms, retention=retention, partitions=partitions)
    tables: dict[str, DataFrame] = {}
    for table in DERIVED:
        if table.build is not None:
            built = table.build(replace(made, tables=tables))
            tables[table.name] = keep(built) if table.is_shared else built
    return FleetTables(by_name=MappingProxyType(tables))


def trusted_actions(
    tables: FleetTables,
    events: DataFrame,
    provenance: Provenance,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    partitions: int | None = None,
) -> DataFrame:
    """The actions for `now_ms` that follow from segments signed by enrolled keys alone (SPEC 13.1).

    `events` have their `source_file`. Where all segments are verified, `tables` are what actions follow from.
    """
    if provenance.certainty is Certainty.PARTLY_VERIFIED:
        tables = verified_tables(events, provenance, now_ms=now_ms, retention=retention, partitions=partitions)
    proposed = actions(
        hours=tables["writer_hours"],
        messages=tables["in_flight"],
        replicas=tables["copies_in_flight"],
        dead_letters=tables["dead_letters"],
        node_scores=tables["node_scores"],
        now_ms=now_ms,
    )
    return proposed.limit(0) if provenance.certainty is Certainty.UNVERIFIED else proposed


def verified_tables(
    events: DataFrame,
    provenance: Provenance,
    *,
    now_ms: int,
    retention: DeadLetterRetention,
    partitions: int | None = None,
) -> FleetTables:
    """The tables as if there were only the segments that enrolled keys signed."""
    names = [(name,) for name in sorted(provenance.verified_files)]
    verified = events.sparkSession.createDataFrame(names, f"{SOURCE_FILE} string")
    known = events.join(sf.broadcast(verified), on=SOURCE_FILE, how="left_semi").select(*JOURNAL_COLUMNS)
    return fleet_tables(known, now_ms=now_ms, retention=retention, partitions=partitions)
