"""Which keys signed the segments of a lake, by their manifests."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from restante.core.fleet.signed_manifests import is_signature_valid
from restante.fleet.lake.layout import Lake
from restante.fleet.lake.new_files import list_files, read_small_file
from restante.fleet.lake.segments import INSPECTED_AT_ONCE
from restante.model.errors import Malformed
from restante.wire.segment_manifest import MANIFEST_PREFIX, MANIFEST_SUFFIX, decode_manifest


def signers_of(where: str) -> dict[str, int]:
    """Return how many segments each key signed; `where` is a lake or a directory of segments."""
    segments = Lake(where).segments
    directory = segments if list_files(segments) else where
    names = [name for name in list_files(directory) if _is_manifest(name)]
    with ThreadPoolExecutor(INSPECTED_AT_ONCE) as threads:
        return dict(Counter(key for key in threads.map(lambda name: _signer(directory, name), names) if key))


def _signer(directory: str, name: str) -> str | None:
    try:
        manifest = decode_manifest(read_small_file(directory, name) or b"")
    except (Malformed, OSError):
        return None
    return manifest.key if is_signature_valid(manifest) else None


def _is_manifest(name: str) -> bool:
    return name.startswith(MANIFEST_PREFIX) and name.endswith(MANIFEST_SUFFIX)
