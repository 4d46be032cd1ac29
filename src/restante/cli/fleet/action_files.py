"""Proposed actions as files in a directory: one for each journal writer, and one for all writers.

A client or node reads its own file and the common one.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.model.fleet_actions import FleetAction
from restante.model.ids import WriterId
from restante.wire.fleet_actions import decode_action, encode_action

SUFFIX: Final = ".actions.jsonl"
COMMON_FILE: Final = f"all{SUFFIX}"


class ActionFiles:
    """Collects the actions of a report and writes them when it is done. A report that fails changes no file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._drafts: dict[str, list[bytes]] = {}

    def add(self, action: FleetAction) -> None:
        name = COMMON_FILE if action.target is None else f"{action.target.hex()}{SUFFIX}"
        self._drafts.setdefault(name, []).append(encode_action(action))

    def publish(self) -> int:
        """Write each file atomically and delete those of earlier reports. Return the number of files."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for name, lines in self._drafts.items():
                draft = self._directory / f".{name}.{os.getpid()}.partial"
                with draft.open("wb") as file:
                    file.writelines(lines)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._directory / name)
            for old in self._directory.glob(f"*{SUFFIX}"):
                if old.name not in self._drafts:
                    old.unlink()
        except OSError as error:
            raise StoreUnusable(f"actions cannot be written: {error}") from error
        return len(self._drafts)


def read_actions(directory: Path, writer: WriterId) -> Iterator[FleetAction]:
    """Yield the actions for this writer and for all writers. An invalid line raises `Malformed` with file and line."""
    if not directory.is_dir():
        raise RestanteError(f"{directory} is not a directory with the actions of a report", code=Code.NOT_FOUND)
    for name in (f"{writer.hex()}{SUFFIX}", COMMON_FILE):
        with contextlib.suppress(FileNotFoundError):
            yield from _read(directory / name)


def _read(path: Path) -> Iterator[FleetAction]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnusable(f"{path.name} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            yield decode_action(line)
        except Malformed as problem:
            raise Malformed(f"{path.name}, line {number}: {problem}") from None
