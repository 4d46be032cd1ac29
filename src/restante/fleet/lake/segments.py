"""Journal segments in a directory (SPEC 13.1): which there are, which can be read, and their rows.

A file that is no whole segment, or not the one its manifest describes, or that an unknown key signed, is named with the
reason and left out, so one bad copy never stops a report. A segment that nothing signs is read and counts as
unverified. Whether a row makes sense is decided in transforms/validate.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from restante.core.fleet.enrolment import Enrolment
from restante.core.fleet.signed_manifests import is_signature_valid, manifest_digest
from restante.fleet.lake.arrow_files import segment_rows
from restante.fleet.lake.file_systems import Folder, escaped, open_folder
from restante.fleet.lake.layout import StorePath, is_object_store
from restante.fleet.lake.segment_bounds import NOT_WHOLE, check_segment
from restante.fleet.spark.map_in_arrow import tasks_for
from restante.fleet.tables.journal_schema import JOURNAL, JOURNAL_COLUMNS, ROWS, SOURCE_FILE
from restante.model.conservation_report import BadSegment
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.model.provenance import SegmentClaim
from restante.wire.segment_manifest import (
    MANIFEST_PREFIX,
    MANIFEST_SUFFIX,
    MAX_MANIFEST_BYTES,
    SEGMENT_SUFFIX,
    Manifest,
    decode_manifest,
    manifest_name,
)

SEGMENT_PATTERN: Final = f"*{SEGMENT_SUFFIX}"
HASH_DIFFERS: Final = "its hash is not the one its manifest says"
UNKNOWN_KEY: Final = "signed by an unknown key: "
INSPECTED_AT_ONCE: Final = 8  # mostly waits for a disk or a store
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")  # encoded they are the same, so that no row needs decoding
_SHIPPED_NAME: Final = re.compile(r"(?P<start>[0-9a-f]{32}-[0-9]{16}-)(?P<last>[0-9]{16})\.parquet")
DRAFT_PREFIXES: Final = (".", "_")  # Spark, like all of its family, takes such names for files in the making

READ_OPTIONS: Final[Mapping[str, str]] = {
    "ignoreCorruptFiles": "true",
    "parquet.page.verify-checksum.enabled": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file whose end is there and whose columns are the journal's; `rows` is what it says it holds.

    `claim` is what its manifest says, if an enrolled key signed it, and `mark` that of the file before its hash was
    compared.
    """

    path: Path | StorePath
    rows: int
    claim: SegmentClaim | None = None
    mark: tuple[int, ...] = field(default=(), compare=False)


class SegmentChanged(StoreUnusable):
    """A signed segment is another file than the one whose hash was compared."""

    def __init__(self, names: Sequence[str]) -> None:
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        super().__init__(
            f"{names[0]}{others}, signed, changed while it was read: nothing of it counts; read it once more"
        )


def signed_files(segments: Iterable[Segment]) -> frozenset[str]:
    """The names of those that an enrolled key signed."""
    return frozenset(segment.path.name for segment in segments if segment.claim is not None)


def find_segments(
    directory: Path | str, spark: SparkSession | None = None, *, enrolment: Enrolment | None = None
) -> tuple[list[Segment], list[BadSegment]]:
    """The segments of a directory in order of their names, and the files that only look like one.

    `spark` is needed where the directory is not on this machine, see `lake.is_here`. Without an `enrolment` no
    signature is checked.
    """
    folder = open_folder(directory, spark)
    everything = frozenset(folder.names())
    names = sorted(name for name in everything if name.endswith(SEGMENT_SUFFIX) and not name.startswith(DRAFT_PREFIXES))
    if not names:
        raise RestanteError(f"{directory} holds no journal segments ({SEGMENT_PATTERN})", code=Code.NOT_FOUND)
    looks = _look_at_all(folder, names, everything, enrolment)
    wrong = _with_another_hash(folder, looks)
    gone = _gone(folder, everything)
    good = [look.segment for look in looks if look.segment is not None and look.segment.path.name not in wrong]
    bad = [BadSegment(name=name, reason=HASH_DIFFERS) for name in wrong]
    bad += [BadSegment(name=name, reason="gone: only its manifest is there") for name in gone]
    return good, sorted([*bad, *(each for look in looks for each in look.bad)], key=lambda file: file.name)


def inspect_segments(
    folder: Folder, names: Sequence[str], enrolment: Enrolment | None = None
) -> tuple[list[Segment], list[BadSegment]]:
    """Those of `names` that are segments, and the others with a reason. Hashes are compared in one go."""
    looks = _look_at_all(folder, names, frozenset(folder.names()), enrolment)
    wrong = frozenset(_with_another_hash(folder, looks))
    good = [look.segment for look in looks if look.segment is not None and look.segment.path.name not in wrong]
    bad = [BadSegment(name=name, reason=HASH_DIFFERS) for name in sorted(wrong)]
    return good, [*bad, *(each for look in looks if look.segment is None for each in look.bad)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What is known of one name before hashes are compared."""

    segment: Segment | None = None
    manifest: Manifest | None = None
    bad: tuple[BadSegment, ...] = ()


def _look_at_all(
    folder: Folder, names: Sequence[str], everything: frozenset[str], enrolment: Enrolment | None
) -> list[_Look]:
    def look(name: str) -> _Look:
        return _look(folder, name, enrolment, has_manifest=manifest_name(name) in everything)

    with ThreadPoolExecutor(INSPECTED_AT_ONCE) as threads:
        return list(threads.map(look, names))


def _look(folder: Folder, name: str, enrolment: Enrolment | None, *, has_manifest: bool) -> _Look:
    """Only the footer and one column are read. The footer comes last, so a file cut short has none."""
    try:
        rows = _rows_in(folder, name)
    except Malformed as error:
        return _Look(bad=(BadSegment(name=name, reason=str(error)),))
    segment = Segment(path=folder.path(name), rows=rows)
    if not has_manifest:
        return _Look(segment=segment)
    beside = manifest_name(name)
    try:
        raw = folder.read(beside, MAX_MANIFEST_BYTES + 1)
        manifest = decode_manifest(raw)
    except (Malformed, OSError) as error:
        # Nothing can be held against it, and its events are needed: the segment is read, the manifest named.
        return _Look(segment=segment, bad=(BadSegment(name=beside, reason=_told(error)),))
    difference = _difference(manifest, name, size_bytes=folder.size(name), rows=rows)
    difference = difference or ("" if enrolment is None else _doubt(manifest, enrolment))
    if difference:
        return _Look(bad=(BadSegment(name=name, reason=difference),))
    if enrolment is None or manifest.key is None:
        return _Look(segment=segment, manifest=manifest)
    return _Look(segment=replace(segment, claim=_claim(manifest, raw), mark=folder.mark(name)), manifest=manifest)


def _doubt(manifest: Manifest, enrolment: Enrolment) -> str:
    """Why a signed manifest counts for nothing, or nothing. One that is not signed is only unverified."""
    if manifest.key is None:
        return ""
    if manifest.key not in enrolment.keys:
        return f"{UNKNOWN_KEY}{manifest.key}"
    if not is_signature_valid(manifest):
        return "its manifest was altered: the signature is wrong"
    if not manifest.segment.startswith(f"{manifest.writer}-"):
        return "its manifest names another writer"
    return ""


def _claim(manifest: Manifest, raw: bytes) -> SegmentClaim:
    return SegmentClaim(
        segment=manifest.segment,
        writer=manifest.writer,
        first=manifest.first,
        last=manifest.last,
        digest=manifest_digest(raw).hex(),
        previous=manifest.previous,
        key=manifest.key or "",
    )


def _rows_in(folder: Folder, name: str) -> int:
    try:
        with folder.opened(name) as opened:
            return check_segment(opened, size_bytes=folder.size(name))
    except (pa.ArrowException, UnicodeDecodeError) as error:  # a column's name may be no text
        raise Malformed(NOT_WHOLE) from error
    except OSError as error:
        raise Malformed(_told(error)) from error


def _told(error: Malformed | OSError) -> str:
    """Why one file could not be read; the system's words where it has some."""
    if isinstance(error, Malformed):
        return str(error)
    has_words = error.strerror and not isinstance(error, IsADirectoryError)
    return f"cannot be read: {error.strerror}" if has_words else NOT_WHOLE


def _difference(manifest: Manifest, name: str, *, size_bytes: int, rows: int) -> str:
    """What the manifest says otherwise than the file, or nothing."""
    if manifest.segment != name:
        return "its manifest speaks of another segment"
    if manifest.size_bytes != size_bytes:
        return f"{size_bytes} bytes, and its manifest says {manifest.size_bytes}"
    if manifest.rows != rows:
        return f"{rows} rows, and its manifest says {manifest.rows}"
    return ""


def _gone(folder: Folder, everything: frozenset[str]) -> list[str]:
    """Segments of which only the manifest is there. Looked for twice: a list of files is no instant.

    A writer that was killed between a manifest and its segment ships these events again, perhaps with newer ones under
    another name: then nothing is gone.
    """
    if not _orphans(everything):
        return []
    names = frozenset(folder.names())
    return [name for name in _orphans(names) if not _is_shipped_again(name, names)]


def _is_shipped_again(name: str, names: frozenset[str]) -> bool:
    found = _SHIPPED_NAME.fullmatch(name)
    if found is None:
        return False
    others = (_SHIPPED_NAME.fullmatch(other) for other in names if other.startswith(found["start"]))
    return any(other is not None and other["last"] > found["last"] for other in others)


def _orphans(names: frozenset[str]) -> list[str]:
    stems = (name[len(MANIFEST_PREFIX) : -len(MANIFEST_SUFFIX)] for name in sorted(names) if _is_manifest(name))
    return [f"{stem}{SEGMENT_SUFFIX}" for stem in stems if f"{stem}{SEGMENT_SUFFIX}" not in names]


def _is_manifest(name: str) -> bool:
    return name.startswith(MANIFEST_PREFIX) and name.endswith(MANIFEST_SUFFIX)


def _with_another_hash(folder: Folder, looks: Sequence[_Look]) -> list[str]:
    promised = {look.manifest.segment: look.manifest.sha256 for look in looks if look.manifest is not None}
    found = folder.hashes(list(promised))
    return [name for name, sha256 in promised.items() if found.get(name) != sha256]


def damaged(segments: Iterable[Segment], rows_read: Mapping[str, int]) -> list[BadSegment]:
    """The files that gave fewer rows than their footers promise."""
    short = ((segment, rows_read.get(segment.path.name, 0)) for segment in segments)
    return [
        BadSegment(name=segment.path.name, reason=f"damaged: {rows} of {segment.rows} rows could be read")
        for segment, rows in short
        if rows != segment.rows
    ]


def read_segments(spark: SparkSession, segments: Sequence[Segment]) -> DataFrame:
    """Read the rows of all segments as ROWS.

    Of a file damaged in the middle only the rows before the damage are read, perhaps none: the caller compares the
    number with `Segment.rows`.
    """
    if not segments:
        return spark.createDataFrame([], ROWS)
    if is_object_store(str(segments[0].path)):
        numbers = spark.range(0, len(segments), 1, tasks_for(spark, len(segments)))
        return numbers.mapInArrow(segment_rows([str(segment.path) for segment in segments]), ROWS)
    paths = [as_spark_path(segment.path) for segment in segments]
    reader = spark.read.schema(JOURNAL).options(**READ_OPTIONS)
    name = sf.col("_metadata.file_name")
    if not all(_PLAIN_NAME.fullmatch(segment.path.name) for segment in segments):
        # The name comes encoded as in a URL, but for the plus sign, which stands for itself.
        name = sf.url_decode(sf.replace(name, sf.lit("+"), sf.lit("%2B")))
    return reader.parquet(*paths).select(*JOURNAL_COLUMNS, name.alias(SOURCE_FILE))


def check_unchanged(spark: SparkSession | None, segments: Sequence[Segment]) -> None:
    """Raise if a signed segment is another file than when its hash was compared: call it after the rows were read and
    before anything that follows from them counts."""
    signed = [segment for segment in segments if segment.claim is not None]
    if not signed:
        return
    where = signed[0].path
    folder = open_folder(where.parent if isinstance(where, Path) else str(where).rpartition("/")[0], spark)
    there = frozenset(folder.names())
    changed = [segment.path.name for segment in signed if not _is_unchanged(folder, segment, there)]
    if changed:
        raise SegmentChanged(changed)


def _is_unchanged(folder: Folder, segment: Segment, there: frozenset[str]) -> bool:
    try:
        return segment.path.name in there and folder.mark(segment.path.name) == segment.mark
    except FileNotFoundError:
        return False


def as_spark_path(path: Path | StorePath) -> str:
    return escaped(str(path)) if isinstance(path, StorePath) else f"file://{escaped(str(path))}"
