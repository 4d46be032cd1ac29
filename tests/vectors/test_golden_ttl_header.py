"""ttl_header.json."""

from typing import Any

import pytest

from restante.model.kinds import TtlType
from restante.wire.ttl_header import TtlHeader, decode_ttl_header, encode_ttl_header
from support.spec.clauses import clause
from support.wire.golden_vectors import cases


@clause("2.7")
@pytest.mark.parametrize("vector", cases("ttl_header"))
def test_ttl_headers_keep_their_bytes(vector: dict[str, Any]) -> None:
    header = TtlHeader(
        created_at_ms=vector["created_at_ms"], ttl_s=vector["ttl_s"], ttl_type=TtlType(vector["ttl_type"])
    )
    assert encode_ttl_header(header).hex() == vector["hex"]
    assert decode_ttl_header(bytes.fromhex(vector["hex"])) == header
