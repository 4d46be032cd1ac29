"""A journal key that was removed stays removed although an older list of keys is put back (SPEC 13.1)."""

import json
from pathlib import Path

import pytest

from restante.cli.fleet import last_lists
from restante.cli.fleet.enrol import enrol, lake_key
from restante.cli.fleet.last_lists import last_list_file
from restante.core.fleet.enrolment import (
    ENROLMENT_FILE,
    Enrolment,
    OlderList,
    newest_serials,
    sign_enrolment,
    verify_enrolment,
)
from restante.crypto.identity import Identity
from restante.fleet.lake.enrolment_file import accept_key, read_enrolment, remove_key
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from support.spec.clauses import clause

OPERATOR = Identity(b"o" * 32)
STOLEN, GOOD, NEW = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def key(tmp_path: Path) -> Path:
    made = tmp_path / "operator.key"
    made.write_bytes((b"o" * 32).hex().encode())
    made.chmod(0o600)
    return made


def enrolled(lake: Path) -> frozenset[str]:
    found = read_enrolment(str(lake), bytes(OPERATOR.address))
    assert found is not None
    return found.keys


@clause("13.1")
def test_the_operator_builds_on_no_list_older_than_the_last_one(tmp_path: Path, key: Path) -> None:
    file = tmp_path / ENROLMENT_FILE
    for each in (STOLEN, GOOD):
        enrol(lake=str(tmp_path), accept=each, key=key)
    old = file.read_bytes()
    enrol(lake=str(tmp_path), remove=STOLEN, key=key)
    new = file.read_bytes()
    for put_back in (old, sign_enrolment({STOLEN, GOOD}, OPERATOR), None):
        file.unlink()
        if put_back is not None:
            file.write_bytes(put_back)
        for accept, remove in ((NEW, None), (None, GOOD)):
            with pytest.raises(RestanteError, match=r"is an older list, number \d: number 3 was here before"):
                enrol(lake=f"file://{tmp_path}", key=key, accept=accept, remove=remove)
        file.write_bytes(new)
    enrol(lake=str(tmp_path), accept=NEW, key=key)
    assert enrolled(tmp_path) == {GOOD, NEW}


@clause("13.1")
def test_each_lake_has_numbers_of_its_own(tmp_path: Path, key: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        enrol(lake=str(tmp_path / name), accept=GOOD, key=key)
    enrol(lake=str(tmp_path / "one"), accept=NEW, key=key)
    enrol(lake=str(tmp_path / "other"), accept=NEW, key=key)
    assert json.loads(last_list_file(key).read_bytes()) == {str(tmp_path / "one"): 2, str(tmp_path / "other"): 2}
    last_list_file(key).write_bytes(b"{")
    with pytest.raises(Malformed, match=r"operator\.key\.lists is damaged"):
        enrol(lake=str(tmp_path / "one"), remove=NEW, key=key)


@clause("13.1")
def test_serials_grow_and_are_signed(tmp_path: Path) -> None:
    made = [accept_key(str(tmp_path), STOLEN, OPERATOR), accept_key(str(tmp_path), GOOD, OPERATOR)]
    made.append(remove_key(str(tmp_path), STOLEN, OPERATOR, last_serial=2))
    assert [each.serial for each in made] == [1, 2, 3]
    raw = (tmp_path / ENROLMENT_FILE).read_bytes()
    assert verify_enrolment(raw, bytes(OPERATOR.address)).serial == 3
    with pytest.raises(RestanteError, match="not signed by the operator"):
        verify_enrolment(raw.replace(b'"serial":3', b'"serial":9'), bytes(OPERATOR.address))


@clause("13.1")
def test_only_an_older_list_is_said_to_be_older(tmp_path: Path, key: Path) -> None:
    accept_key(str(tmp_path), GOOD, Identity(b"x" * 32))
    with pytest.raises(RestanteError, match="not signed by the operator") as raised:
        enrol(lake=str(tmp_path), accept=NEW, key=key)
    assert not hasattr(raised.value, "__notes__")
    (tmp_path / ENROLMENT_FILE).unlink()
    enrol(lake=str(tmp_path), accept=NEW, key=key)
    (tmp_path / ENROLMENT_FILE).unlink()
    with pytest.raises(RestanteError, match="is an older list") as raised:
        enrol(lake=str(tmp_path), accept=NEW, key=key)
    assert "Put back the newest list" in raised.value.__notes__[0]


@clause("13.1")
def test_no_list_is_signed_where_its_number_cannot_be_kept(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the command would report a failure after it changed the list in the lake."""

    def full(path: Path, _pieces: object) -> int:
        raise StoreUnusable(f"{path} cannot be written: Read-only file system")

    monkeypatch.setattr(last_lists, "write_private", full)
    with pytest.raises(StoreUnusable, match=r"operator\.key\.lists cannot be written"):
        enrol(lake=str(tmp_path), accept=NEW, key=key)
    assert not (tmp_path / ENROLMENT_FILE).exists()


@clause("13.1")
@pytest.mark.parametrize(
    ("one", "other"),
    [("s3://b/lake", "s3a://b/lake/"), ("gs://b/lake", "gcs://b/lake"), ("/lakes/one", "file:///lakes/one/")],
)
def test_a_lake_has_one_number_however_its_address_is_spelled(one: str, other: str) -> None:
    assert lake_key(one) == lake_key(other)


@clause("13.1")
def test_an_operators_key_that_comes_back_is_known_by_its_last_list() -> None:
    """Another key, or none, was in use meanwhile."""
    first, other = b"a" * 32, b"b" * 32
    known = newest_serials({}, first, Enrolment(serial=3))
    known = newest_serials(known, other, Enrolment(serial=1))
    known = newest_serials(known, None, None)
    with pytest.raises(OlderList, match="number 1: number 3 was here before"):
        newest_serials(known, first, Enrolment(serial=1))
    assert newest_serials(known, first, Enrolment(serial=4)) == {first.hex(): 4, other.hex(): 1}
