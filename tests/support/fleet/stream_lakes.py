"""A small lake for a stream: segments that overlap, come in the wrong order and are damaged; and its tables."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from restante.fleet.lake.layout import Lake
from restante.fleet.stream.batches import last_catalog, open_batches
from restante.fleet.stream.state_tables import KINDS
from restante.model.ids import SessionTag
from restante.model.journal import JournalKind
from support.fleet.journal_files import Journal, Record, message, records, sealed, write_segment, writer

NOON_MS = 1_767_614_400_000
SEED = 20_260_105
TABLES = ("events", "arrivals", "quarantine", "repeats")


def facts() -> list[Record]:
    """Two recipients with two sessions each, some of it out of order and twice, and a row that is none."""
    dice = random.Random(SEED)  # noqa: S311 - what goes wrong when, not a secret
    rows: list[Record] = []
    for who in (1, 2):
        journal = Journal(writer(who))
        numbers = sorted(range(60), key=lambda number: number + dice.choice((0, 0, 0, 2.5)))
        for place, number in enumerate(numbers):
            for _ in range(dice.choice((1, 1, 1, 2))):
                journal.write(
                    JournalKind.ARRIVED,
                    message(number + 1_000 * who),
                    NOON_MS + place * 1_000,
                    session_tag=SessionTag(bytes([who, number % 2]) * 8),
                    sequence=number // 2,
                    payload_hash=sealed(number),
                    code="new",
                )
        rows += records(journal.rows)
    return rows


def ship(segments: Path) -> None:
    """In segments that overlap and come in the wrong order, one of them cut."""
    segments.mkdir(parents=True)
    rows = facts()
    dice = random.Random(SEED)  # noqa: S311 - what goes wrong when, not a secret
    starts = list(range(0, len(rows), 25))
    dice.shuffle(starts)
    for name, start in enumerate(starts):
        part = rows[start : start + dice.choice((25, 30))]
        write_segment(segments / f"{name:03d}.parquet", part)
    write_segment(segments / "odd.parquet", [{**rows[0], "kind": "sneezed"}, {**rows[1], "code": "replay"}])
    whole = (segments / "000.parquet").read_bytes()
    (segments / "cut.parquet").write_bytes(whole[: len(whole) // 2])


def tables(root: str) -> dict[str, Any]:
    """Every row of the stream's tables, and what it counted."""
    catalog = last_catalog(open_batches(Lake(root)))
    assert catalog is not None
    found: dict[str, Any] = {}
    for kind in TABLES:
        rows = DeltaTable(f"{root}/{KINDS[kind].folder}").to_pyarrow_table().to_pylist()
        found[kind] = Counter(str(sorted(row.items())) for row in rows)
    odd = [(one.name, one.reason) for one in catalog.rejected]
    counts = (catalog.counts.events, catalog.counts.duplicates, catalog.counts.quarantined)
    return found | {"odd": odd, "counts": counts}
