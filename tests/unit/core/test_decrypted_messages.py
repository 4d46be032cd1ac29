"""core/decrypted_messages: the key that identifies an arrival."""

from restante.core.decrypted_messages import dedup_key
from restante.model.ids import Address, MessageId, SessionId
from support.spec.clauses import clause


@clause("9.1")
def test_the_dedup_key_is_the_sha_256_of_sender_session_and_message_id() -> None:
    # sha256sum of 00 .. 1f, then 32 bytes 11, then 9f1c5a3e6d0b4c1e8a572f4e0c9b7d11
    key = dedup_key(
        Address(bytes(range(32))),
        SessionId(b"\x11" * 32),
        MessageId(bytes.fromhex("9f1c5a3e6d0b4c1e8a572f4e0c9b7d11")),
    )
    assert key.hex() == "7c9bfebb633ee1a420fcf3c75daf9a8c5b541ae8ad2d6c1e8a3fe7fb85bb6222"
