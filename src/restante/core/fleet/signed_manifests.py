"""Sign manifests of journal segments, and check them (SPEC 13.1).

A writer signs all bytes of a manifest without its signature. The next manifest of the writer names the hash of the
whole manifest, so that one that was taken away is missed.
"""

import hashlib
from dataclasses import replace
from typing import Final

from restante.crypto.identity import is_signed_by
from restante.crypto.journal_key import JournalKey
from restante.wire.segment_manifest import Manifest, encode_manifest

_DOMAIN: Final = b"restante-manifest-v1\0"


def sign_manifest(manifest: Manifest, key: JournalKey) -> Manifest:
    """Return the manifest with the key and its signature."""
    named = replace(manifest, key=key.public.hex(), signature=None)
    return replace(named, signature=key.sign(_signed_bytes(named)).hex())


def is_signature_valid(manifest: Manifest) -> bool:
    """Return whether the manifest is signed by the key it names. Whether that key counts is the operator's decision."""
    if manifest.key is None or manifest.signature is None:
        return False
    return is_signed_by(bytes.fromhex(manifest.key), bytes.fromhex(manifest.signature), _signed_bytes(manifest))


def manifest_digest(raw: bytes) -> bytes:
    """Return what the next manifest names as `previous`: the hash of this one's bytes."""
    return hashlib.sha256(raw).digest()


def _signed_bytes(manifest: Manifest) -> bytes:
    return _DOMAIN + encode_manifest(replace(manifest, signature=None))
