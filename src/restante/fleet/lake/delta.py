"""Delta tables of a lake, through deltalake: create, commit files of a batch, list live files, maintain.

A commit belongs to a batch number. deltalake accepts any transaction version, and removes of files that are not live:
both are checked here, on the handle that then commits. A commit is never retried, so that a second driver on the same
table makes it fail (`ConcurrentWriter`) instead of interleaving with it.
"""

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import parquet

from restante.fleet.lake.layout import store_address
from restante.fleet.lake.new_files import create_file
from restante.model.errors import StoreUnusable

APP_ID: Final = "restante"
CHECKPOINT_INTERVAL: Final = 50  # versions
STREAM_RETENTION_H: Final = 1
"""How long removed files and old log entries of the stream's own tables stay: no reader but the stream needs them."""
PUBLISHED_RETENTION_H: Final = 24
"""The same for published tables: a reader may hold an old version for a day."""


class ConcurrentWriter(StoreUnusable):
    """Another driver committed to the same table."""

    def __init__(self, name: str) -> None:
        super().__init__(f"another 'restante fleet stream' or backfill writes to the table {name}; run one at a time")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A Parquet file of a table. `path` is relative to the table; `day` is its partition."""

    path: str
    size_bytes: int
    rows: int
    day: str | None = None

    def partition_values(self) -> dict[str, str | None]:
        return {} if self.day is None else {"day": self.day}


class DeltaFiles:
    """A Delta table as a set of live files. The schema includes the partition columns."""

    def __init__(
        self, address: str, schema: Any, *, partition: Sequence[str] = (), retention_h: int = PUBLISHED_RETENTION_H
    ) -> None:
        self.name = address.rstrip("/").rpartition("/")[2]
        self.address = store_address(address)
        self._schema = schema
        self.partition = list(partition)
        self._table = self._open(retention_h)

    @property
    def version(self) -> int:
        return int(self._table.version())

    def refresh(self) -> None:
        self._table.update_incremental()

    def live(self) -> dict[str, DataFile]:
        """The live files by path."""
        return self._files_of(self._table)

    def restore(self, version: int) -> None:
        """Make the files of an earlier version the live ones again, if others are."""
        if version == self.version:
            return
        earlier = DeltaTable(self.address, version=version)
        now, then = self.live(), self._files_of(earlier)
        added = [file for path, file in then.items() if path not in now]
        self.replace(added, now.keys() - then.keys(), batch=earlier.transaction_version(APP_ID) or 0)

    def read(self, columns: Sequence[str] | None = None, where: Any = None) -> Any:
        """Rows as an Arrow table; `where` is an expression of pyarrow. For small tables: Spark reads the large ones."""
        rows = self._table.to_pyarrow_dataset()
        return rows.to_table(columns=None if columns is None else list(columns), filter=where)

    def last(self, app_id: str = APP_ID) -> int:
        """The last batch that this application committed to the table; 0 before the first."""
        return self._table.transaction_version(app_id) or 0

    def commit(
        self, batch: int, added: Iterable[DataFile], removed: Iterable[str] = (), *, app_id: str = APP_ID
    ) -> None:
        """Commit the files of `batch`, which must follow the last one. Committing no file at all marks the batch."""
        if self.last(app_id) != batch - 1:
            raise ConcurrentWriter(self.name)
        self._commit(list(added), list(removed), [Transaction(app_id, batch)])

    def replace(self, added: Iterable[DataFile], removed: Iterable[str], *, batch: int = 0) -> None:
        """Commit files that replace others. `batch` is the stream's last one, 0 for files of a backfill."""
        self._commit(list(added), list(removed), [Transaction(APP_ID, batch)])

    def write(self, rows: Any) -> DataFile:
        """Write a small Arrow table as one new file, to be committed."""
        path = f"{secrets.token_hex(12)}.parquet"
        with create_file(self.address, path) as file:
            parquet.write_table(rows.select(self._schema.names).cast(self._schema), file, compression="zstd")
            size_bytes = file.tell()
        return DataFile(path=path, size_bytes=size_bytes, rows=len(rows))

    def vacuum(self, *, retention_h: int, full: bool = True) -> int:
        """Delete files that are not live and older than `retention_h`; return how many."""
        gone = self._table.vacuum(retention_h, dry_run=False, enforce_retention_duration=False, full=full)
        self.refresh()
        return len(gone)

    def checkpoint(self) -> None:
        """Write a log checkpoint, and delete log entries older than the table's retention."""
        self._table.create_checkpoint()
        self._table.cleanup_metadata()

    def _files_of(self, table: DeltaTable) -> dict[str, DataFile]:
        rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return {
            row["path"]: DataFile(
                path=row["path"],
                size_bytes=row["size_bytes"],
                rows=row["num_records"],
                day=str(row["partition.day"]) if self.partition else None,
            )
            for row in rows
        }

    def _commit(self, added: list[DataFile], removed: list[str], transactions: list[Any]) -> None:
        live = self.live() if removed else {}
        if missing := [path for path in removed if path not in live]:
            raise StoreUnusable(f"table {self.name}: {len(missing)} files to remove are not live, such as {missing[0]}")
        now_ms = int(time.time() * 1_000)
        actions: list[Any] = [_add(file, now_ms) for file in added]
        actions += [
            RemoveAction(path, True, now_ms, size=live[path].size_bytes, partition_values=live[path].partition_values())
            for path in removed
        ]
        if not actions and not transactions:
            return
        try:
            self._table.create_write_transaction(
                actions, "append", self._schema, self.partition, commit_properties=_properties(transactions)
            )
        except DeltaError as error:
            raise self._explained(error) from error
        self.refresh()

    def _explained(self, error: Exception) -> StoreUnusable:
        if isinstance(error, CommitFailedError):
            return ConcurrentWriter(self.name)
        return StoreUnusable(f"table {self.name} cannot be written: {error}")

    def _open(self, retention_h: int) -> DeltaTable:
        try:
            return DeltaTable(self.address)
        except TableNotFoundError:
            pass
        except (DeltaError, OSError) as error:
            raise StoreUnusable(f"table {self.name} cannot be read: {error}") from error
        try:
            return DeltaTable.create(
                self.address,
                self._schema,
                mode="ignore",
                partition_by=self.partition,
                configuration=_configuration(retention_h),
            )
        except (DeltaError, OSError) as error:
            raise StoreUnusable(f"table {self.name} cannot be created: {error}") from error


def open_existing(address: str) -> DeltaFiles:
    """Open a table with the schema that it has: the definitions of published tables need a Spark session."""
    try:
        table = DeltaTable(store_address(address))
    except (DeltaError, OSError) as error:
        raise StoreUnusable(f"{address} cannot be read: {error}") from error
    schema = pa.schema(table.schema().to_arrow())
    return DeltaFiles(address, schema, partition=table.metadata().partition_columns)


def exists(address: str) -> bool:
    """Whether there is a Delta table."""
    try:
        return bool(DeltaTable.is_deltatable(store_address(address)))
    except (DeltaError, OSError) as error:
        raise StoreUnusable(f"{address} cannot be read: {error}") from error


def _add(file: DataFile, now_ms: int) -> AddAction:
    return AddAction(
        file.path, file.size_bytes, file.partition_values(), now_ms, True, json.dumps({"numRecords": file.rows})
    )


def _properties(transactions: list[Any]) -> CommitProperties:
    return CommitProperties(app_transactions=transactions, max_commit_retries=0)


def _configuration(retention_h: int) -> Mapping[str, str]:
    """Statistics only of no column: lowest and highest values in the log would outlive the erasure of a writer."""
    return {
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        "delta.logRetentionDuration": f"interval {retention_h} hours",
        "delta.deletedFileRetentionDuration": f"interval {retention_h} hours",
        "delta.enableExpiredLogCleanup": "true",
        "delta.dataSkippingNumIndexedCols": "0",
    }
