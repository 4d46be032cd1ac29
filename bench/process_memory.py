"""The most memory that this process and all its children held at one time, as Linux counts it."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_S = 0.25
KIB_PER_MIB = 1_024


class PeakMemory:
    """Looks while its block runs. Pages that forked workers share are divided among them (PSS).

    To have them divided costs the system milliseconds for each look at a large process, which whoever is measured would
    pay for: it is asked only when all pages together are more than at any look before.
    """

    def __init__(self, *, apart: Iterable[int] = ()) -> None:
        """`apart` are children that do not count."""
        self.peak_mb = 0
        self._apart = frozenset(apart)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        most_pages = 0
        while not self._over.wait(SAMPLE_S):
            family = _family(self._apart)
            pages = sum(map(_pages, family))
            if pages > most_pages:
                most_pages = pages
                self.peak_mb = max(self.peak_mb, sum(map(_held_kib, family)) // KIB_PER_MIB)


def _family(apart: frozenset[int]) -> list[int]:
    """This process, its children, their children, without those `apart` and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
            if int(entry.name) not in apart:
                children.setdefault(parent, []).append(int(entry.name))
    family = [os.getpid()]
    for process in family:
        family += children.get(process, [])
    return family


def _pages(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    except OSError:
        return 0


def _held_kib(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
