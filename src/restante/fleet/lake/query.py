"""Look at a lake without Spark: its tables, and SQL over them by deltalake's own engine."""

import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from restante.fleet.lake.delta import APP_ID
from restante.fleet.lake.layout import STREAM, TABLES, Lake, store_address
from restante.fleet.lake.new_files import list_files
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError

STREAM_PREFIX: Final = "stream_"
"""Before the names of the stream's own tables in SQL, such as stream_batches."""
_ONLY_READS: Final = re.compile(
    r"\s*(explain\s+(analyze\s+)?(verbose\s+)?)?(\(|(select|with|values|show|describe)\b)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    name: str
    version: int
    batch: int | None
    files: int
    rows: int
    size_bytes: int


def summaries(lake: Lake) -> list[TableSummary]:
    """Every table of the lake with its size."""
    found = []
    for name, table in open_all(lake).items():
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        found.append(
            TableSummary(
                name=name,
                version=table.version(),
                batch=table.transaction_version(APP_ID),
                files=len(files),
                rows=sum(file["num_records"] or 0 for file in files),
                size_bytes=sum(file["size_bytes"] for file in files),
            )
        )
    return found


def query(lake: Lake, sql: str) -> Any:
    """The rows that an SQL query over the lake's tables gives, as an Arrow table.

    Other statements are refused: the engine's COPY writes files, its CREATE EXTERNAL TABLE reads any file.
    """
    if not _ONLY_READS.match(sql):
        raise Malformed("a query begins with SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN")
    builder = QueryBuilder()
    for name, table in open_all(lake).items():
        builder = builder.register(name, table)
    try:
        return pa.table(builder.execute(sql))
    except DeltaError as error:
        raise Malformed(f"the query failed: {error}") from error


def open_all(lake: Lake) -> dict[str, DeltaTable]:
    """The Delta tables of the lake by their names in SQL."""
    found = {}
    for folder, prefix in ((TABLES, ""), (STREAM, STREAM_PREFIX)):
        for name in sorted(list_files(f"{lake.root.rstrip('/')}/{folder}")):
            address = store_address(f"{lake.root.rstrip('/')}/{folder}/{name}")
            if not name.startswith(("_", ".")) and DeltaTable.is_deltatable(address):
                found[prefix + name] = DeltaTable(address)
    if not found:
        raise RestanteError(
            f"{lake.root} has no tables; 'restante fleet stream' and 'backfill' make them", code=Code.NOT_FOUND
        )
    return found
