"""envelope.json."""

from typing import Any

import pytest

from restante.model.ids import InboxKey
from restante.wire.envelope import Envelope, decode_envelope, encode_envelope, hash_sealed_bytes
from support.spec.clauses import clause
from support.wire.golden_vectors import cases


@clause("0")
@pytest.mark.parametrize("vector", cases("envelope"))
def test_envelopes_keep_their_bytes(vector: dict[str, Any]) -> None:
    envelope = Envelope(
        inbox_key=InboxKey(bytes.fromhex(vector["inbox_key"])),
        expires_at_ms=vector["expires_at_ms"],
        sealed=bytes.fromhex(vector["sealed"]),
    )
    assert encode_envelope(envelope).hex() == vector["hex"]
    assert decode_envelope(bytes.fromhex(vector["hex"])) == envelope
    assert hash_sealed_bytes(envelope.sealed).hex() == vector["payload_hash"]
