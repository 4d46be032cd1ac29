"""A private file is there whole or not at all, and for its owner only."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.model.errors import StoreUnusable
from restante.runtime.private_file import write_private


def test_only_the_owner_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert write_private(tmp_path / "letters", [b"one\n", b"two\n"]) == 2
    finally:
        os.umask(before)
    assert (tmp_path / "letters").read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE((tmp_path / "letters").stat().st_mode) == 0o600


def test_a_file_that_was_there_is_replaced_together_with_who_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "letters"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_private(path, [b"new"])
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "interruption", [KeyboardInterrupt, StoreUnusable("the database is gone"), OSError(28, "full")]
)
def test_what_interrupts_it_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, interruption: BaseException | type[BaseException]
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half of it"
        raise interruption

    path = tmp_path / "letters"
    path.write_bytes(b"old")
    with pytest.raises((KeyboardInterrupt, StoreUnusable)):
        write_private(path, pieces())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"letters": b"old"}


def test_a_directory_that_is_not_there_is_refused_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="absent/letters cannot be written: No such file"):
        write_private(tmp_path / "absent" / "letters", [])
