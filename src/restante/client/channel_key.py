"""The storage key of channel chunks, in a file beside the outbox (SPEC 8.6).

A sealed mark in the outbox's file detects a wrong key before anything is sealed or unsealed.
"""

from pathlib import Path
from typing import Final

from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.errors import RestanteError, StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import create_private, read_private
from restante.runtime.sqlite.file.journal import Journal

KEY_BYTES: Final = 32
_MARK: Final = "channel_seal"
_MARK_CONTEXT: Final = b"which key seals the chunks of this file"


def key_file(outbox_file: Path) -> Path:
    return outbox_file.with_name(f"{outbox_file.name}.key")


def open_seal(outbox_file: Path, journal: Journal, entropy: Entropy) -> StorageSeal:
    """Return the seal of this file's chunks; create the key the first time. Raise if the file was sealed with another
    key."""
    path = key_file(outbox_file)
    is_new = not path.exists() and create_private(path, entropy.draw(KEY_BYTES))
    key = read_private(path, what="the key file", limit_bytes=KEY_BYTES)
    if len(key) != KEY_BYTES:
        raise StoreUnusable(f"{path.name} is not a key file: it must have {KEY_BYTES} bytes")
    seal = StorageSeal(key)
    mark = journal.get_or_create_meta(
        _MARK, lambda: seal.seal(b"", nonce=entropy.draw(NONCE_BYTES), context=_MARK_CONTEXT)
    )
    try:
        seal.unseal(mark, context=_MARK_CONTEXT)
    except RestanteError as problem:
        if is_new:
            path.unlink()
        state = "is missing" if is_new else "is not the one"
        raise StoreUnusable(
            f"{path.name} {state} that {outbox_file.name} was sealed with: put it back, or use another file"
        ) from problem
    return seal
