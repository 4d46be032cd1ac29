"""Proposed actions as files in a directory, each signed by the operator: one for each journal writer, and one for all.

A client or node reads its own file and the common one.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from restante.core.fleet.signed_actions import sign_actions, verify_actions
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.model.fleet_actions import FleetAction
from restante.model.ids import WriterId
from restante.wire.fleet_actions import decode_action, encode_action

SUFFIX: Final = ".actions.jsonl"
COMMON_FILE: Final = f"all{SUFFIX}"


class ActionFiles:
    """Collects the actions of a report and writes them when it is done. A report that fails changes no file."""

    def __init__(self, directory: Path, operator: Identity, *, expires_at_ms: int) -> None:
        self._directory = directory
        self._operator = operator
        self._expires_at_ms = expires_at_ms
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
                signed = sign_actions(lines, file=name, operator=self._operator, expires_at_ms=self._expires_at_ms)
                with draft.open("wb") as file:
                    file.write(signed)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._directory / name)
            for old in self._directory.glob(f"*{SUFFIX}"):
                if old.name not in self._drafts:
                    old.unlink()
        except OSError as error:
            raise StoreUnusable(f"actions cannot be written: {error}") from error
        return len(self._drafts)


def read_actions(directory: Path, writer: WriterId, *, operator_key: bytes, now_ms: int) -> Iterator[FleetAction]:
    """Yield the actions for this writer and for all writers.

    A file that the operator did not sign, or that has expired, raises before any of its actions. An invalid line raises
    `Malformed` with file and line.
    """
    if not directory.is_dir():
        raise RestanteError(f"{directory} is not a directory with the actions of a report", code=Code.NOT_FOUND)
    for name in (f"{writer.hex()}{SUFFIX}", COMMON_FILE):
        with contextlib.suppress(FileNotFoundError):
            yield from _read(directory / name, operator_key, now_ms)


def _read(path: Path, operator_key: bytes, now_ms: int) -> Iterator[FleetAction]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnusable(f"{path.name} cannot be read: {error}") from error
    lines = verify_actions(raw, file=path.name, operator_key=operator_key, now_ms=now_ms)
    for number, line in enumerate(lines, 2):
        try:
            yield decode_action(line)
        except Malformed as problem:
            raise Malformed(f"{path.name}, line {number}: {problem}") from None
