"""Encode and decode the manifest of a journal segment (SPEC 13.1): its writer, event numbers, row count and file hash.

A manifest is JSON with a fixed set of keys. The reader of the segment compares the file with it. `previous` is the hash
of the writer's manifest before it; `key` and `signature` are null where the writer does not sign.
core/fleet/signed_manifests says what is signed.
"""

import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from restante.model.errors import Malformed
from restante.model.ids import WRITER_ID_BYTES

MAX_MANIFEST_BYTES: Final = 4_096
MANIFEST_PREFIX: Final = "_"  # Spark ignores files with this prefix
MANIFEST_SUFFIX: Final = ".manifest.json"
SEGMENT_SUFFIX: Final = ".parquet"
MAX_NUMBER: Final = 2**64 - 1  # event numbers are u64, see model.ids.event_id
_WRITER: Final = re.compile(rf"[0-9a-f]{{{2 * WRITER_ID_BYTES}}}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SEGMENT_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,199}\.parquet")
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
_NUMBERS: Final = ("first", "last", "rows", "size_bytes", "schema_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of one segment. `first` and `last` are event numbers, both included. Hashes, key and signature
    are hex."""

    segment: str
    writer: str
    first: int
    last: int
    rows: int
    size_bytes: int
    schema_version: int
    sha256: str
    previous: str | None = None
    key: str | None = None
    signature: str | None = None


def manifest_name(segment: str) -> str:
    """Return the name of a segment's manifest, which lies beside it."""
    return f"{MANIFEST_PREFIX}{segment.removesuffix(SEGMENT_SUFFIX)}{MANIFEST_SUFFIX}"


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest. Equal manifests give equal bytes, so that shipping twice writes the same file."""
    return (json.dumps(asdict(manifest), indent=2) + "\n").encode()


def decode_manifest(raw: bytes) -> Manifest:
    """Decode a manifest. Exactly the known keys must be present, each with a value of its type."""
    if len(raw) > MAX_MANIFEST_BYTES:
        raise Malformed(f"a manifest has at most {MAX_MANIFEST_BYTES} bytes")
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        raise Malformed("the manifest is not JSON") from None
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
    for name, pattern in (("previous", _SHA256), ("key", _KEY), ("signature", _SIGNATURE)):
        value = values[name]
        if value is not None and (not isinstance(value, str) or not pattern.fullmatch(value)):
            raise Malformed(f"{name}: must be null or match {pattern.pattern}")
    if (values["key"] is None) != (values["signature"] is None):
        raise Malformed("signature: must be there exactly if the key is")
    manifest = Manifest(**values)
    # A writer's numbers are consecutive: a segment with fewer rows than numbers has lost some.
    if manifest.last - manifest.first + 1 != manifest.rows:
        raise Malformed("rows: must be as many as the numbers from first to last")
    return manifest
