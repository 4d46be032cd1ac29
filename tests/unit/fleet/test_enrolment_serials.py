"""A journal key that was removed stays removed although an older list of keys is put back (SPEC 13.1)."""

import json
from pathlib import Path

import pytest

from restante.cli.fleet.enrol import enrol
from restante.cli.fleet.last_lists import last_list_file
from restante.core.fleet.enrolment import ENROLMENT_FILE, sign_enrolment, verify_enrolment
from restante.crypto.identity import Identity
from restante.fleet.lake.enrolment_file import accept_key, read_enrolment, remove_key
from restante.model.errors import Malformed, RestanteError
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
