"""Seeds and contact cards as files: who may read them, and that no file can do more than be refused."""

import json
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.crypto.identity import Identity
from restante.crypto.passphrase import ScryptCost
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RemoteProtocolError, RestanteError, StoreUnusable
from restante.runtime.identity_files import create_identity, load_identity, needs_passphrase, read_card, write_card
from restante.testing.deterministic import SeededEntropy
from support.spec.clauses import clause

ALICE = Identity(b"a" * 32)
RIGHT, WRONG = "correct horse", "wrong horse"
Change = Callable[[dict[str, Any]], object]


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
    with pytest.raises(StoreUnusable, match=f"mode {mode:04o}.*make it 0600"):
        load_identity(tmp_path / "identity")


def test_a_seed_only_its_owner_can_read_is_taken(tmp_path: Path) -> None:
    create_identity(tmp_path / "identity", SeededEntropy(1))
    (tmp_path / "identity").chmod(0o400)
    load_identity(tmp_path / "identity")


@pytest.mark.parametrize("size", [0, 31, 33, 1_000_000])
def test_a_seed_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / "identity").write_bytes(bytes(size))
    (tmp_path / "identity").chmod(0o600)
    with pytest.raises(Malformed, match="must have 32 bytes"):
        load_identity(tmp_path / "identity")


@pytest.mark.parametrize("load", [load_identity, read_card])
def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path, load: Callable[[Path], object]) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(RestanteError, match="cannot be read") as refused:
            load(path)
        assert refused.value.code.value == "E109"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(StoreUnusable):
        create_identity(tmp_path / "file" / "identity", SeededEntropy(1))
    with pytest.raises(StoreUnusable):
        write_card(ALICE.card, tmp_path / "file" / "card.json")


def test_a_card_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_card(ALICE.card, tmp_path / "card.json")
    assert read_card(tmp_path / "card.json") == ALICE.card


def test_a_card_holds_no_secret(tmp_path: Path) -> None:
    identity = create_identity(tmp_path / "identity", SeededEntropy(1))
    write_card(identity.card, tmp_path / "card.json")
    text = (tmp_path / "card.json").read_text("utf-8")
    for secret in ((tmp_path / "identity").read_bytes(), identity.storage_key, identity.tag_secret):
        assert secret.hex() not in text


def reading(raw: bytes) -> ContactCard:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "card.json"
        path.write_bytes(raw)
        return read_card(path)


@given(raw=st.binary(max_size=300))
def test_random_bytes_are_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        reading(raw)


NAMES = st.sampled_from(["address", "sealing_key", "signature", "other"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(value=JSON_VALUES | st.fixed_dictionaries({"address": JSON_VALUES, "sealing_key": JSON_VALUES}))
def test_random_json_is_malformed(value: object) -> None:
    with pytest.raises(Malformed):
        reading(json.dumps(value).encode())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[" * 16_000,
        b'{"a":' * 3_000,
        b" " * 16_385,
        b"9" * 16_000,
        b"\xef\xbb\xbf{}",
        b"NaN",
        b'"\\ud800"',
    ],
    ids=["empty", "brackets", "braces", "too long", "a huge number", "byte order mark", "not a number", "half a pair"],
)
def test_files_that_trouble_json_readers_are_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        reading(raw)


def card_with(change: Change) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "card.json"
        write_card(ALICE.card, path)
        fields = json.loads(path.read_text("utf-8"))
    change(fields)
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.pop("address"),
        lambda fields: fields.pop("sealing_key"),
        lambda fields: fields.pop("signature"),
        lambda fields: fields.update(address=list(fields["address"])),
        lambda fields: fields.update(address=dict.fromkeys(map(str, range(62)))),
        lambda fields: fields.update(address=fields["address"][:-1]),
        lambda fields: fields.update(address="\ud800" * 62),
        lambda fields: fields.update(signature=None),
        lambda fields: fields.update(signature="no hex"),
        lambda fields: fields.update(sealing_key=fields["sealing_key"][:-1]),
    ],
)
def test_a_card_with_a_broken_field_is_malformed(change: Change) -> None:
    with pytest.raises(Malformed):
        reading(card_with(change))


@given(place=st.integers(0, 2_430), bit=st.integers(0, 7))
def test_a_card_with_one_bit_flipped_is_never_believed_to_be_another(place: int, bit: int) -> None:
    raw = bytearray(card_with(lambda _: None))
    raw[place % len(raw)] ^= 1 << bit
    believed = ALICE.card
    with suppress(RemoteProtocolError):
        believed = reading(bytes(raw))
    assert believed == ALICE.card  # as when the case of a hexadecimal digit is all that changed


def test_a_card_signed_by_another_is_refused() -> None:
    mallory = Identity(b"m" * 32)
    forged = card_with(lambda fields: fields.update(sealing_key=mallory.card.sealing_key.hex()))
    with pytest.raises(RemoteProtocolError) as refused:
        reading(forged)
    assert refused.value.code.value == "E103"


@clause("8.6")
def test_an_identity_under_a_passphrase_is_worth_nothing_without_it(tmp_path: Path) -> None:
    path = tmp_path / "identity"
    created = create_identity(path, SeededEntropy(1), passphrase=RIGHT, cost=ScryptCost(log2_n=15))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SeededEntropy(1).draw(32) not in path.read_bytes()
    assert needs_passphrase(path)
    assert load_identity(path, passphrase=RIGHT).card == created.card
    with pytest.raises(RestanteError, match="closed with a passphrase") as refused:
        load_identity(path)
    assert refused.value.code is Code.AUTHENTICATION_FAILED
    with pytest.raises(RestanteError, match="cannot be unsealed"):
        load_identity(path, passphrase=WRONG)


def test_an_identity_without_a_passphrase_asks_for_none(tmp_path: Path) -> None:
    create_identity(tmp_path / "identity", SeededEntropy(1))
    assert not needs_passphrase(tmp_path / "identity")
