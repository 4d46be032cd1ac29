"""Writes the events of one Spark task as files of the table `events`: a file a day, as rows come (SPEC 13.3).

The files count once a commit names them. A task that fails deletes its own.
"""

import secrets
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from restante.fleet.lake.delta import DataFile
from restante.fleet.lake.new_files import create_file, delete_file
from restante.fleet.stream.bucket_files import DAY_MS, DICTIONARY, EPOCH, ZSTD_LEVEL
from restante.fleet.stream.state_tables import KINDS

ROWS_IN_MEMORY: Final = 400_000
OPEN_FILES: Final = 40
_TABLE: Final = KINDS["events"]


@dataclass
class _Open:
    """A file that rows are written to."""

    path: str
    day: str
    file: Any
    writer: parquet.ParquetWriter
    stack: ExitStack
    rows: int = 0

    def close(self) -> DataFile:
        self.writer.close()
        size_bytes = self.file.tell()
        self.stack.close()
        return DataFile(path=self.path, size_bytes=size_bytes, rows=self.rows, day=self.day)


class EventFiles:
    """Use it as a context manager; `close` returns the files."""

    def __init__(self, root: str) -> None:
        self._address = f"{root.rstrip('/')}/{_TABLE.folder}"
        self._waiting: list[Any] = []
        self._open: dict[str, _Open] = {}
        self._done: list[DataFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._open.values():
            with suppress(OSError, pa.ArrowException):
                one.close()
            delete_file(self._address, one.path)
        for file in self._done if kind is not None else ():
            delete_file(self._address, file.path)

    def write(self, rows: Any) -> None:
        self._waiting.append(_TABLE.to_stored(rows.select(_TABLE.schema.names)))
        if sum(map(len, self._waiting)) >= ROWS_IN_MEMORY:
            self._flush()

    def close(self) -> list[DataFile]:
        self._flush()
        self._close_all()
        return self._done

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting = []
        days = rows["at_ms"].to_numpy() // DAY_MS
        for day in np.unique(days).tolist():
            flags = days == day
            part = rows if flags.all() else rows.filter(pa.array(flags))
            one = self._file_of(str(EPOCH + timedelta(days=day)))
            one.writer.write_table(part)
            one.rows += len(part)
        if len(self._open) > OPEN_FILES:
            self._close_all()

    def _file_of(self, day: str) -> _Open:
        if day not in self._open:
            path = f"day={day}/events-{secrets.token_hex(12)}.parquet"
            stack = ExitStack()
            # As with files that Spark writes: they can be made again from the segments.
            file = stack.enter_context(create_file(self._address, path, sync=lambda _descriptor: None))
            writer = parquet.ParquetWriter(
                file,
                _TABLE.stored,
                compression="zstd",
                compression_level=ZSTD_LEVEL,
                use_dictionary=[name for name in DICTIONARY if name in _TABLE.schema.names],
                write_statistics=False,
                write_page_checksum=True,
            )
            self._open[day] = _Open(path, day, file, writer, stack)
        return self._open[day]

    def _close_all(self) -> None:
        while self._open:
            day = next(iter(self._open))
            self._done.append(self._open[day].close())
            del self._open[day]
