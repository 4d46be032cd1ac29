"""What is a message id: exactly the UUIDs of version 4 (SPEC 2.1)."""

import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restante.model.errors import Malformed
from restante.model.ids import message_id, mint_message_id
from support.spec.clauses import clause


@clause("2.1")
@given(st.binary(min_size=16, max_size=16))
@example(bytes(6) + b"\x40" + bytes(9))  # version 4 of another variant
@example(bytes(6) + b"\x40\x00\xc0" + bytes(7))
@example(bytes(6) + b"\x50\x00\x80" + bytes(7))
def test_an_id_is_taken_exactly_when_the_library_calls_it_a_uuid_of_version_four(raw: bytes) -> None:
    if uuid.UUID(bytes=raw).version == 4:
        assert message_id(raw) == raw
    else:
        with pytest.raises(Malformed, match="UUIDv4"):
            message_id(raw)
    assert message_id(mint_message_id(raw))


def test_an_id_has_sixteen_bytes() -> None:
    with pytest.raises(Malformed, match="16 bytes, not 15"):
        message_id(bytes(15))
