"""A node's directory: made for its owner only, never made twice."""

import stat
from pathlib import Path

import pytest

from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.runtime.node_home import NodeDirectory
from restante.testing.deterministic import SeededEntropy


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_enter_and_read(tmp_path: Path) -> None:
    there = NodeDirectory(tmp_path / "a" / "node")
    identity = there.create("[node]\n", SeededEntropy(1))
    assert (mode(there.path), mode(there.key), mode(there.config)) == (0o700, 0o600, 0o600)
    there.check()
    assert there.identity().node_key == identity.node_key


def test_an_empty_directory_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    NodeDirectory(tmp_path).create("", SeededEntropy(1))
    assert mode(tmp_path) == 0o700


def test_a_directory_with_anything_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"somebody's")
    tmp_path.chmod(0o755)
    with pytest.raises(StoreUnusable, match="is not empty; name a new directory, nothing was changed"):
        NodeDirectory(tmp_path).create("", SeededEntropy(1))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"key": b"somebody's"}
    assert mode(tmp_path) == 0o755


def test_a_place_where_nothing_can_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnusable, match="cannot be created"):
        NodeDirectory(tmp_path / "file").create("", SeededEntropy(1))


def test_another_directory_is_no_nodes(tmp_path: Path) -> None:
    with pytest.raises(RestanteError, match="'restante node init' makes") as caught:
        NodeDirectory(tmp_path).check()
    assert caught.value.code is Code.NOT_FOUND


def test_a_key_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    there = NodeDirectory(tmp_path)
    there.create("", SeededEntropy(1))
    there.key.chmod(0o640)
    with pytest.raises(StoreUnusable, match="key is accessible to other users"):
        there.identity()
