"""Seeds as files: who may read them, and that no file can do more than be refused."""

import os
import stat
from pathlib import Path

import pytest

from restante.crypto.passphrase import ScryptCost
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.runtime.identity_files import create_identity, load_identity, needs_passphrase
from restante.testing.deterministic import SeededEntropy
from support.spec.clauses import clause

RIGHT, WRONG = "correct horse", "wrong horse"


def test_a_seed_is_kept_for_its_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_identity(tmp_path / "home" / "identity", SeededEntropy(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "home" / "identity").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_a_loaded_identity_is_the_one_that_was_created(tmp_path: Path) -> None:
    created = create_identity(tmp_path / "identity", SeededEntropy(1))
    loaded = load_identity(tmp_path / "identity")
    assert loaded.card == created.card
    assert loaded.storage_key == created.storage_key


def test_an_identity_is_never_written_over(tmp_path: Path) -> None:
    first = create_identity(tmp_path / "identity", SeededEntropy(1))
    with pytest.raises(StoreUnusable, match="exists"):
        create_identity(tmp_path / "identity", SeededEntropy(2))
    assert load_identity(tmp_path / "identity").address == first.address


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666])
def test_a_seed_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    create_identity(tmp_path / "identity", SeededEntropy(1))
    (tmp_path / "identity").chmod(mode)
    with pytest.raises(StoreUnusable, match=f"mode {mode:04o}.*run chmod 600"):
        load_identity(tmp_path / "identity")


def test_a_seed_only_its_owner_can_read_is_taken(tmp_path: Path) -> None:
    created = create_identity(tmp_path / "identity", SeededEntropy(1))
    (tmp_path / "identity").chmod(0o400)
    assert load_identity(tmp_path / "identity").address == created.address


@pytest.mark.parametrize("size", [0, 31, 33, 1_000_000])
def test_a_seed_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "identity").write_bytes(bytes(size))
    (tmp_path / "identity").chmod(0o600)
    with pytest.raises(Malformed, match="must have 32 bytes"):
        load_identity(tmp_path / "identity")


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(RestanteError, match="cannot be read") as refused:
            load_identity(path)
        assert refused.value.code.value == "E109"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(StoreUnusable):
        create_identity(tmp_path / "file" / "identity", SeededEntropy(1))


@clause("8.6")
def test_an_identity_under_a_passphrase_is_worth_nothing_without_it(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    created = create_identity(path, SeededEntropy(1), passphrase=RIGHT, cost=ScryptCost(log2_n=15))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SeededEntropy(1).draw(32) not in path.read_bytes()
    assert needs_passphrase(path)
    assert load_identity(path, passphrase=RIGHT).card == created.card
    with pytest.raises(RestanteError, match="encrypted with a passphrase") as refused:
        load_identity(path)
    assert refused.value.code is Code.AUTHENTICATION_FAILED
    with pytest.raises(RestanteError, match="cannot be unsealed"):
        load_identity(path, passphrase=WRONG)


def test_an_identity_without_a_passphrase_asks_for_none(tmp_path: Path) -> None:
    create_identity(tmp_path / "identity", SeededEntropy(1))
    assert not needs_passphrase(tmp_path / "identity")
