"""Create files and directories that only their owner can read. Files are written atomically."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable


def write_private(path: Path, pieces: Iterable[bytes]) -> int:
    """Write the pieces to `path` and return how many there were. An existing file is replaced once all are on disk.

    If the write is interrupted, `path` is unchanged.
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


def read_private(path: Path, *, what: str, limit_bytes: int) -> bytes:
    """Read up to one byte more than `limit_bytes`. Raise if other users of this machine could read the file."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise RestanteError(f"{what} cannot be read: {error}", code=Code.NOT_FOUND) from error
    if mode & 0o077:
        raise StoreUnusable(f"{path.name} is accessible to other users (mode {mode:04o}); run chmod 600 {path.name}")
    return raw


def create_private(path: Path, content: bytes) -> bool:
    """Write a file that must not exist. Return False and do nothing if it does. The file appears complete or not at
    all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
        finally:
            partial.unlink()
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be written: {error.strerror}") from error
    return True


def create_private_directory(path: Path) -> None:
    """Create a directory for its owner only. An existing one must be empty, so that nothing is overwritten."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise StoreUnusable(f"{path} is not empty; name a new directory, nothing was changed")
        path.chmod(0o700)
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be created: {error.strerror}") from error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
