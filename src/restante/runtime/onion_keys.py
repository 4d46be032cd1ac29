"""A node's onion keys on disk: a new one each week, the one before it good for one more week (SPEC 11.1, NETWORK 4).

The file is replaced at each rotation, so an old key is gone after two weeks: traffic recorded before can't be opened
with what is on the disk then.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from restante.crypto.onion import onion_public_key
from restante.model.errors import StoreUnusable
from restante.ports.entropy import Entropy
from restante.runtime.private_file import read_private, write_private

ROTATE_MS: Final = 7 * 86_400_000
GOOD_MS: Final = 2 * ROTATE_MS
KEY_BYTES: Final = 32
_KEY: Final = struct.Struct(f">Q{KEY_BYTES}s")
_MOST_BYTES: Final = 3 * _KEY.size


class _Key(NamedTuple):
    made_at_ms: int
    private: bytes


class OnionKeys:
    """The keys of one node. Call `rotate` before each descriptor is issued."""

    def __init__(self, path: Path, entropy: Entropy) -> None:
        self._path = path
        self._entropy = entropy
        self._keys = _read(path)
        self._good: dict[bytes, bytes] = {onion_public_key(each.private): each.private for each in self._keys}

    def __repr__(self) -> str:
        return "OnionKeys(…)"  # printing must not reveal a key

    def rotate(self, *, now_ms: int) -> bytes:
        """Make a key if there is none or the newest is a week old; return the public half of the newest."""
        newest = self._keys[0] if self._keys else None
        if newest is None or not 0 <= now_ms - newest.made_at_ms < ROTATE_MS:
            made = _Key(now_ms, self._entropy.draw(KEY_BYTES))
            kept = [each for each in self._keys if abs(now_ms - each.made_at_ms) < GOOD_MS]
            self._keys = [made, *kept[:1]]
            write_private(self._path, [_KEY.pack(*each) for each in self._keys])
            self._good = {onion_public_key(each.private): each.private for each in self._keys}
        return onion_public_key(self._keys[0].private)

    def good(self) -> Mapping[bytes, bytes]:
        """Return the keys that circuit requests may name, public to private."""
        return self._good


def _read(path: Path) -> list[_Key]:
    if not path.exists():
        return []
    raw = read_private(path, what="the file of onion keys", limit_bytes=_MOST_BYTES)
    if len(raw) % _KEY.size or len(raw) > _MOST_BYTES:
        raise StoreUnusable(f"{path.name} is no file of onion keys; remove it, the node makes another")
    return [_Key(*each) for each in _KEY.iter_unpack(raw)]
