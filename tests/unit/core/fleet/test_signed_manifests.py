"""Signed manifests and enrolled keys: what was signed is accepted, whatever was changed is not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.fleet.enrolment import Enrolment, parse_journal_key, sign_enrolment, verify_enrolment
from restante.core.fleet.signed_manifests import is_signature_valid, sign_manifest
from restante.crypto.identity import Identity
from restante.crypto.journal_key import JournalKey
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError
from restante.wire.segment_manifest import Manifest, decode_manifest, encode_manifest
from support.spec.clauses import clause

KEY = JournalKey(b"k" * 32)
OPERATOR, OTHER = Identity(b"o" * 32), Identity(b"p" * 32)
MANIFEST = Manifest(
    segment=f"{'0a' * 16}-0000000000000003-0000000000000005.parquet",
    writer="0a" * 16,
    first=3,
    last=5,
    rows=3,
    size_bytes=1_234,
    schema_version=1,
    sha256="ab" * 32,
    previous="cd" * 32,
)


@clause("13.1")
def test_a_signed_manifest_survives_the_wire_and_any_change_breaks_it() -> None:
    signed = decode_manifest(encode_manifest(sign_manifest(MANIFEST, KEY)))
    assert is_signature_valid(signed)
    assert signed.key == KEY.public.hex()
    changes: dict[str, Any] = {
        "writer": "0b" * 16,
        "first": 4,
        "last": 6,
        "rows": 4,
        "size_bytes": 1,
        "schema_version": 2,
        "sha256": "ba" * 32,
        "previous": None,
        "segment": "a.parquet",
        "key": JournalKey(b"x" * 32).public.hex(),
    }
    assert changes.keys() | {"signature"} == set(Manifest.__dataclass_fields__)
    for name, value in changes.items():
        assert not is_signature_valid(replace(signed, **{name: value})), name


def test_an_unsigned_manifest_is_not_valid() -> None:
    assert not is_signature_valid(MANIFEST)


@clause("13.1")
def test_enrolled_keys_count_only_with_the_signature_of_the_operator() -> None:
    raw = sign_enrolment({KEY.public.hex()}, OPERATOR)
    assert verify_enrolment(raw, bytes(OPERATOR.address)) == Enrolment(frozenset({KEY.public.hex()}))
    for forged in (raw.replace(KEY.public.hex().encode(), b"00" * 32), sign_enrolment({"00" * 32}, OTHER), b"", b"{}"):
        with pytest.raises(RestanteError, match="not signed by the operator") as caught:
            verify_enrolment(forged, bytes(OPERATOR.address))
        assert caught.value.code is Code.AUTHENTICATION_FAILED


@given(st.binary(max_size=300))
def test_no_bytes_enrol_anything(raw: bytes) -> None:
    with pytest.raises(RestanteError):
        verify_enrolment(raw, bytes(OPERATOR.address))


def test_what_is_no_key_is_named() -> None:
    assert parse_journal_key(f" {'AB' * 32}\n") == "ab" * 32
    with pytest.raises(Malformed, match="64 hexadecimal digits"):
        parse_journal_key("ab")
