"""Shipping that goes on: a node or client calls this beside its other work (SPEC 13.1).

Decides when the next segment is written. A directory that cannot be written now is tried again later; until then the
facts stay in the journal, so nothing is lost by it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NoReturn

from restante.model.errors import StoreUnusable
from restante.runtime.journal.segments import mark_shipped, next_rows, write_segment
from restante.runtime.sqlite.journal import Journal

SHIP_EVERY_S: Final = 60.0
"""So that a fleet's tables are about a minute behind; shorter makes more and smaller files."""


async def ship_once(journal: Journal, directory: Path) -> int:
    """How many facts left. The journal is read and marked on the caller's loop, files are written in a thread."""
    shipped = 0
    while rows := next_rows(journal):
        await asyncio.to_thread(write_segment, rows, directory)
        mark_shipped(journal, rows)
        shipped += len(rows)
    return shipped


async def keep_shipping(
    journal: Journal,
    directory: Path,
    *,
    every_s: float = SHIP_EVERY_S,
    on_trouble: Callable[[StoreUnusable], None] = lambda _problem: None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> NoReturn:
    """Ship what is new, again and again, until cancelled. What cannot be written is told and tried again."""
    while True:
        try:
            await ship_once(journal, directory)
        except StoreUnusable as problem:
            on_trouble(problem)
        await sleep(every_s)
