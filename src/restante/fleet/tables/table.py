"""What a table of the fleet is: frozen definitions that batch, stream, docs and tests iterate over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple, cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from restante.model.journal import JournalKind
from restante.model.states import State
from restante.policy.dead_letters import DeadLetterRetention


class Scope(Enum):
    """Which rows of a table new events can change. Publishing builds these again and keeps the others."""

    WHOLE = auto()
    """Any: the table is small, and built from small tables before it."""
    EVENT = auto()
    """Rows of single events: those of the new ones are added."""
    HOUR = auto()
    """Rows of hours that the events are of: what is new is added to them."""
    WRITER = auto()
    """Rows of the journal writers that the events are of."""
    MESSAGE = auto()
    """Rows of the messages that the events are about."""
    COUNT = auto()
    """Counts of messages: what the changed ones added before is taken off, what they add now is put on."""
    MESSAGE_HOUR = auto()
    """Rows of the hours in which these messages were accepted."""
    PAYLOAD = auto()
    """Rows of the sealed bytes that the events are about."""
    COPY = auto()
    """Rows that follow from changed rows of `replicas` and of `in_flight`."""
    ABSENCE = auto()
    """Rows of messages that the events or new absences are about."""


class Column(NamedTuple):
    name: str
    type: str
    describe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a table may be built from: the events, and the tables before it."""

    events: DataFrame
    now_ms: int
    retention: DeadLetterRetention
    partitions: int | None = None
    tables: Mapping[str, DataFrame] = field(default_factory=lambda: MappingProxyType({}))

    def __getitem__(self, name: str) -> DataFrame:
        return self.tables[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`is_shared`: other tables are built from it. `build` is None for the tables that every batch writes itself.

    `kinds` are the events that one with Scope.EVENT has a row of. `states`, if any: one with Scope.MESSAGE is built
    from events, and has rows of messages in these states alone. `sums` are the counts of one with Scope.COUNT; its
    other columns are the key, or follow from the counts (`finish`).
    """

    name: str
    describe: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ()
    is_shared: bool = False
    scope: Scope = Scope.WHOLE
    build: Callable[[Made], DataFrame] | None = None
    kinds: frozenset[JournalKind] = frozenset()
    states: frozenset[State] = frozenset()
    sums: tuple[str, ...] = ()
    finish: Callable[[DataFrame], DataFrame] = lambda counts: counts

    @property
    def schema(self) -> StructType:
        ddl = ", ".join(f"`{column.name}` {column.type}" for column in self.columns)
        return StructType([*cast("StructType", StructType.fromDDL(ddl)).fields])
