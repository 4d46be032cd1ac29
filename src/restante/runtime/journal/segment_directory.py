"""Where segments can be put: a directory here or, through `stores`, a store elsewhere.

Decides how a file appears in a directory whole or not at all, and which addresses name a depot. Knows nothing of what
is in the files.
"""

import contextlib
import itertools
import os
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from restante.model.errors import ConfigurationInvalid, StoreUnusable

STORE_SCHEMES: Final = ("s3", "s3a", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
_DRAFT_NUMBERS: Final = itertools.count()


class SegmentStore(Protocol):
    def put(self, name: str, raw: bytes) -> None:
        """The file is there whole, and will stay, when this returns; one of that name that was there is replaced.

        Raises `StoreUnusable`; then nothing is there that looks like the file, or it is there and was not promised.
        """
        ...


class DirectoryDepot:
    """A directory of this machine, which is made when the first file comes. Files are closed by an atomic rename."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, raw: bytes) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned_drafts(name)
            self._write_whole(name, raw)
            _sync_directory(self.path)
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreUnusable(f"a journal segment cannot be written to {self.path}: {why}") from error

    def _write_whole(self, name: str, raw: bytes) -> None:
        # Process and number: two that put the same file at once do not write into each other's draft.
        draft = self.path / f".{name}.{os.getpid()}-{next(_DRAFT_NUMBERS)}.partial"
        try:
            draft.unlink(missing_ok=True)  # others may write here, too: a link of theirs is not followed
            with draft.open("xb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def _remove_abandoned_drafts(self, name: str) -> None:
        """What killed processes of this writer left; a draft is never read by anybody."""
        writer = name.lstrip("_").partition("-")[0]
        for draft in self.path.glob(f".*{writer}-*.partial"):
            pid = draft.name.rsplit(".", 2)[1].partition("-")[0]
            if not pid.isdigit() or not Path(f"/proc/{pid}").exists():
                draft.unlink(missing_ok=True)


def check_depot(key: str, text: str) -> str:
    """An absolute path or an address with a known scheme. Whether it can be reached is found out when it is used."""
    scheme = urlsplit(text).scheme
    if scheme in ("", "file") and not local_path(text).is_absolute():
        raise ConfigurationInvalid(f"{key} must be an absolute path or an address such as s3://bucket/x, not {text!r}")
    if scheme not in ("", "file", *STORE_SCHEMES):
        known = ", ".join(("file", *STORE_SCHEMES))
        raise ConfigurationInvalid(f"{key}: {scheme}:// is not known; the schemes are {known}")
    return text


def is_store(text: str) -> bool:
    """Whether an address names something else than a directory of this machine."""
    return urlsplit(text).scheme in STORE_SCHEMES


def local_path(text: str) -> Path:
    """The path that a text without a scheme, or with `file`, means."""
    parts = urlsplit(text)
    return Path(unquote(parts.path)) if parts.scheme == "file" else Path(text)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
