"""The key that signs a journal's manifests, in a file beside the database (SPEC 13.1).

It belongs to the home, not to the database: a restored database gets another writer id and is signed by the same key.
"""

from pathlib import Path
from typing import Final

from restante.crypto.journal_key import JOURNAL_SEED_BYTES, JournalKey
from restante.model.errors import StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import create_private, read_private

KEY_FILE: Final = "journal.key"


def journal_key(database: Path, entropy: Entropy) -> JournalKey:
    """Return the key beside a database; create it the first time."""
    path = database.with_name(KEY_FILE)
    if not path.exists():
        create_private(path, entropy.draw(JOURNAL_SEED_BYTES).hex().encode() + b"\n")
    raw = read_private(path, what="the journal's key", limit_bytes=2 * JOURNAL_SEED_BYTES + 1)
    try:
        return JournalKey(bytes.fromhex(raw.decode("ascii").strip()))
    except ValueError:
        raise StoreUnusable(f"{path.name} is not a journal's key; move it away, and a new one is made") from None
