"""What is said beside a journal segment (SPEC 13.1): whose facts it holds, which, how many, and a hash of the file.

A manifest is JSON with a fixed set of keys. It tells a reader what to expect; whether the segment is like that is the
reader's to find out.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import WRITER_ID_BYTES

MAX_MANIFEST_BYTES: Final = 4_096
MANIFEST_PREFIX: Final = "_"  # Spark, like all of its family, passes over such names
MANIFEST_SUFFIX: Final = ".manifest.json"
SEGMENT_SUFFIX: Final = ".parquet"
MAX_NUMBER: Final = 2**64 - 1  # numbers of facts are u64, see model.ids.event_id
_WRITER: Final = re.compile(rf"[0-9a-f]{{{2 * WRITER_ID_BYTES}}}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SEGMENT_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,199}\.parquet")
_NUMBERS: Final = ("first", "last", "rows", "size_bytes", "schema_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`first` and `last` are numbers of facts, both in the segment; `sha256` is that of the whole file, as hex."""

    segment: str
    writer: str
    first: int
    last: int
    rows: int
    size_bytes: int
    schema_version: int
    sha256: str


def manifest_name(segment: str) -> str:
    """What the manifest of a segment is called; it lies beside it."""
    return f"{MANIFEST_PREFIX}{segment.removesuffix(SEGMENT_SUFFIX)}{MANIFEST_SUFFIX}"


def encode_manifest(manifest: Manifest) -> bytes:
    """Equal manifests give equal bytes, so that shipping again writes the same file again."""
    return (json.dumps(asdict(manifest), indent=2) + "\n").encode()


def decode_manifest(raw: bytes) -> Manifest:
    """Refused unless every key is there, no other, and each value is of its kind."""
    if len(raw) > MAX_MANIFEST_BYTES:
        raise Malformed(f"a manifest has at most {MAX_MANIFEST_BYTES} bytes")
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        raise Malformed("the manifest is no JSON") from None
    names = tuple(Manifest.__dataclass_fields__)
    if not isinstance(values, dict) or values.keys() != set(names):
        raise Malformed(f"a manifest has exactly the keys {', '.join(names)}")
    for name in _NUMBERS:
        value = values[name]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
            raise Malformed(f"{name}: must be an integer in 0..{MAX_NUMBER}")
    for name, pattern in (("segment", _SEGMENT_NAME), ("writer", _WRITER), ("sha256", _SHA256)):
        if not isinstance(values[name], str) or not pattern.fullmatch(values[name]):
            raise Malformed(f"{name}: must match {pattern.pattern}")
    manifest = Manifest(**values)
    # A writer's numbers have no holes: a segment with fewer rows than numbers has lost some.
    if manifest.last - manifest.first + 1 != manifest.rows:
        raise Malformed("rows: must be as many as the numbers from first to last")
    return manifest
