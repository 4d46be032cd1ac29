"""Proposed actions as files in a directory: one for each writer, named by it, and one for everybody.

A client or node is given its own file and the common one; what others are asked to do is none of its business.
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
FOR_EVERYBODY: Final = f"everybody{SUFFIX}"


class ActionFiles:
    """Collected while a report runs, and written when it is done: a report that fails changes no file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._drafts: dict[str, list[bytes]] = {}

    def add(self, action: FleetAction) -> None:
        name = FOR_EVERYBODY if action.target is None else f"{action.target.hex()}{SUFFIX}"
        self._drafts.setdefault(name, []).append(encode_action(action))

    def publish(self) -> int:
        """Each file whole, by rename; those of an earlier report go. How many files there are now."""
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
    """What is proposed to this writer, and to everybody. A line that cannot be read is refused by file and number."""
    if not directory.is_dir():
        raise RestanteError(f"{directory} is not a directory; it should hold actions of a report", code=Code.NOT_FOUND)
    for name in (f"{writer.hex()}{SUFFIX}", FOR_EVERYBODY):
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
