"""A file that only its owner may read, and that is there whole or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from restante.model.errors import StoreUnusable


def write_private(path: Path, pieces: Iterable[bytes]) -> int:
    """Write the pieces to `path`, replacing what was there, only once all are on disk; how many there were.

    Whatever interrupts it, `path` is as it was before.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    written = 0
    try:
        handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in pieces:
                    file.write(piece)
                    written += 1
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be written: {error.strerror}") from error
    return written


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
