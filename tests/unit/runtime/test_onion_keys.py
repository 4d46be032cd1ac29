"""runtime/onion_keys: a new key a week, the one before good for one more, nothing older on the disk."""

from pathlib import Path

import pytest

from restante.crypto.onion import onion_public_key
from restante.model.errors import StoreUnusable
from restante.runtime.onion_keys import ROTATE_MS, OnionKeys
from restante.testing.deterministic import SeededEntropy
from support.spec.clauses import clause

NOW = 1_800_000_000_000


@clause("11.1")
def test_keys_rotate_weekly_and_survive_a_restart(tmp_path: Path) -> None:
    path, entropy = tmp_path / "onion-keys", SeededEntropy(1)
    first = OnionKeys(path, entropy).rotate(now_ms=NOW)
    again = OnionKeys(path, entropy)
    assert again.rotate(now_ms=NOW + ROTATE_MS - 1) == first
    second = again.rotate(now_ms=NOW + ROTATE_MS)
    assert second != first
    assert set(OnionKeys(path, entropy).good()) == {first, second}
    third = again.rotate(now_ms=NOW + 2 * ROTATE_MS)
    assert set(again.good()) == {second, third}
    assert all(onion_public_key(private) == public for public, private in again.good().items())


def test_a_key_from_the_future_of_a_clock_that_jumped_is_replaced(tmp_path: Path) -> None:
    keys = OnionKeys(tmp_path / "onion-keys", SeededEntropy(1))
    ahead = keys.rotate(now_ms=NOW + 3 * ROTATE_MS)
    assert keys.rotate(now_ms=NOW) != ahead


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "onion-keys"
    OnionKeys(path, SeededEntropy(1)).rotate(now_ms=NOW)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(StoreUnusable, match="other users"):
        OnionKeys(path, SeededEntropy(1))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "onion-keys"
    path.write_bytes(b"x")
    path.chmod(0o600)
    with pytest.raises(StoreUnusable, match="onion-keys is no file of onion keys"):
        OnionKeys(path, SeededEntropy(1))
