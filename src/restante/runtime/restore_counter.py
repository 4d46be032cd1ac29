"""Notices that a client's file was restored from a backup: a counter in the file and the same one beside it.

Both are advanced whenever the file is opened and while it is in use. A file whose counter is lower than the one beside
it, or that came without the one beside it, is an older copy. If the whole directory was restored, both agree and this
module notices nothing; the session rules cover that (docs/protocol/sessions.md).
"""

from pathlib import Path
from typing import Final

from restante.model.errors import StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import write_private
from restante.runtime.sqlite.file.client_file import ClientFile

_KEY: Final = "restore_counter"
_BYTES: Final = 8


class RestoreCounter:
    """The counter of one open file. `was_restored` is whether the file was an older copy when it was opened."""

    def __init__(self, file: ClientFile, *, entropy: Entropy) -> None:
        """Compare the counters, advance both, and give a restored file a new journal writer id."""
        self._file = file
        self._beside = counter_path(file.database.path)
        self._to_write: int | None = None
        file.database.on_invalidate(self._forget)
        with file.database.transaction():
            in_file, beside = self._in_file(), self._read_beside()
            self.was_restored = in_file > 0 and (beside is None or beside > in_file)
            if self.was_restored:
                file.journal.take_new_writer(entropy)
            self._set(max(in_file, beside or 0) + 1)
        self._write_beside()
        file.after_commit(self._write_beside)

    def advance(self) -> None:
        """Advance the counter in the transaction in progress; the one beside the file follows after the commit."""
        self._set(self._in_file() + 1)

    def _set(self, value: int) -> None:
        self._file.journal.set_meta(_KEY, value.to_bytes(_BYTES, "big"))
        self._to_write = value

    def _in_file(self) -> int:
        return int.from_bytes(self._file.journal.get_meta(_KEY) or b"", "big")

    def _read_beside(self) -> int | None:
        try:
            return int.from_bytes(self._beside.read_bytes()[:_BYTES], "big")
        except OSError:
            return None

    def _write_beside(self) -> None:
        # After the commit: if this write is lost, the file is ahead, which is no sign of a restore.
        value, self._to_write = self._to_write, None
        if value is None:
            return
        try:
            write_private(self._beside, [value.to_bytes(_BYTES, "big")])
        except StoreUnusable:  # a full disk must not stop what frees space
            if not self._beside.exists():
                raise

    def _forget(self) -> None:
        self._to_write = None


def counter_path(database: Path) -> Path:
    return database.with_name(f"{database.name}-counter")
