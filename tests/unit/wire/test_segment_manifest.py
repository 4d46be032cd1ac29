"""Manifests: what is written is read back equal, and whatever else is given is refused in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.wire.segment_manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest, encode_manifest

MANIFEST = Manifest(
    segment=f"{'0a' * 16}-0000000000000003-0000000000000005.parquet",
    writer="0a" * 16,
    first=3,
    last=5,
    rows=3,
    size_bytes=1_234,
    schema_version=1,
    sha256="ab" * 32,
)


def test_a_manifest_reads_back_equal() -> None:
    assert decode_manifest(encode_manifest(MANIFEST)) == MANIFEST


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"first": -1}, "first"),
        ({"last": 2**64}, "last"),
        ({"rows": True}, "rows"),
        ({"rows": 2}, "rows"),
        ({"size_bytes": 1.5}, "size_bytes"),
        ({"schema_version": "1"}, "schema_version"),
        ({"writer": "0A" * 16}, "writer"),
        ({"sha256": "ab" * 31}, "sha256"),
        ({"segment": "../../etc/x.parquet"}, "segment"),
        ({"previous": "ab" * 31}, "previous"),
        ({"key": "ab" * 32}, "signature"),
        ({"key": "AB" * 32, "signature": "ab" * 64}, "key"),
        ({"key": "ab" * 32, "signature": 5}, "signature"),
        ({"more": 1}, "exactly the keys"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_its_name(change: dict[str, object], named: str) -> None:
    values = json.loads(encode_manifest(MANIFEST)) | change
    with pytest.raises(Malformed, match=named):
        decode_manifest(json.dumps(values).encode())


def test_a_missing_key_and_a_manifest_too_long_are_refused() -> None:
    values = json.loads(encode_manifest(MANIFEST))
    del values["sha256"]
    with pytest.raises(Malformed, match="exactly the keys"):
        decode_manifest(json.dumps(values).encode())
    with pytest.raises(Malformed, match="at most"):
        decode_manifest(encode_manifest(MANIFEST) + b" " * MAX_MANIFEST_BYTES)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_manifest(raw)
