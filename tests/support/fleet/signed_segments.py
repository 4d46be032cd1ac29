"""Segments as writers ship them: named after the writer, with a signed manifest that names the one before."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from restante.core.fleet.signed_manifests import manifest_digest, sign_manifest
from restante.crypto.journal_key import JournalKey
from restante.model.ids import event_number
from restante.model.journal import JournalEvent
from restante.wire.journal_schema import SCHEMA_VERSION
from restante.wire.segment_manifest import Manifest, encode_manifest, manifest_name
from support.fleet.journal_files import records, write_segment

KEY = JournalKey(b"k" * 32)
STRANGER = JournalKey(b"s" * 32)


def ship_signed(
    directory: Path, rows: Sequence[JournalEvent], key: JournalKey = KEY, previous: bytes | None = None
) -> tuple[Path, bytes]:
    """Write one segment with its manifest; return it and the hash of the manifest."""
    writer = rows[0].writer
    first, last = event_number(rows[0].event_id), event_number(rows[-1].event_id)
    path = write_segment(directory / f"{writer.hex()}-{first:016d}-{last:016d}.parquet", records(rows))
    raw = path.read_bytes()
    manifest = Manifest(
        segment=path.name,
        writer=writer.hex(),
        first=first,
        last=last,
        rows=last - first + 1,
        size_bytes=len(raw),
        schema_version=SCHEMA_VERSION,
        sha256=hashlib.sha256(raw).hexdigest(),
        previous=None if previous is None else previous.hex(),
    )
    said = encode_manifest(sign_manifest(manifest, key))
    path.with_name(manifest_name(path.name)).write_bytes(said)
    return path, manifest_digest(said)


def ship_chain(directory: Path, rows: Sequence[JournalEvent], *, sizes: int, key: JournalKey = KEY) -> list[Path]:
    """Ship rows in segments of `sizes` rows that name each other."""
    paths, previous = [], None
    for start in range(0, len(rows), sizes):
        path, previous = ship_signed(directory, rows[start : start + sizes], key, previous)
        paths.append(path)
    return paths
