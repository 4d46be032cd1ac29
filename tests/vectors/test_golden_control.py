"""control.json."""

from typing import Any

import pytest

from restante.model.ids import PayloadHash, SessionId
from restante.wire.control_messages import (
    AccessSecret,
    CannotReadMessage,
    Control,
    LostMessage,
    RetransmitRequest,
    decode_control,
    encode_access_secret,
    encode_cannot_read,
    encode_lost,
    encode_retransmit_request,
)
from support.spec.clauses import clause
from support.wire.golden_vectors import cases


def made(vector: dict[str, Any]) -> tuple[Control, bytes]:
    match vector["name"]:
        case "retransmit_request":
            session = SessionId(bytes.fromhex(vector["session_id"]))
            request = RetransmitRequest(session_id=session, first=vector["first"], last=vector["last"])
            return request, encode_retransmit_request(request)
        case "cannot_read":
            unread = CannotReadMessage(tuple(PayloadHash(bytes.fromhex(each)) for each in vector["hashes"]))
            return unread, encode_cannot_read(unread)
        case "access_secret":
            stated = AccessSecret(secret=bytes.fromhex(vector["secret"]), stated_at_ms=vector["stated_at_ms"])
            return stated, encode_access_secret(stated)
        case _:
            return LostMessage(), encode_lost()


@clause("8.7", "8.8", "9.5")
@pytest.mark.parametrize("vector", cases("control"))
def test_control_messages_keep_their_bytes(vector: dict[str, Any]) -> None:
    message, raw = made(vector)
    assert raw.hex() == vector["hex"]
    assert decode_control(bytes.fromhex(vector["hex"])) == message
