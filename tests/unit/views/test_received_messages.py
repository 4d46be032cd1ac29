"""views/received_messages: one line for each message, and one for what is held back."""

from restante.model.ids import Address, MessageId, SessionId
from restante.model.inbox_entry import HeldBack, InboxEntry
from restante.model.kinds import Kind
from restante.views.received_messages import held_back_data, held_back_line, message_data, message_line
from support.spec.clauses import clause

ALICE = Address(b"a" * 32)
TEN_TO_EIGHT_MS = 19 * 3_600_000 + 50 * 60_000


@clause("9.5")
def test_a_message_that_waits_for_an_earlier_one_is_named_with_the_end_of_its_wait() -> None:
    one = HeldBack(sender=ALICE, messages=1, until_ms=TEN_TO_EIGHT_MS)
    assert held_back_line(one, "alice") == "1 message from alice waits for an earlier one, until 19:50 UTC"
    two = HeldBack(sender=ALICE, messages=2, until_ms=TEN_TO_EIGHT_MS)
    assert held_back_line(two, "alice") == "2 messages from alice wait for an earlier one, until 19:50 UTC"
    assert held_back_data(two, "alice") == {"from": "alice", "messages": 2, "until_ms": TEN_TO_EIGHT_MS}


def received(plaintext: bytes) -> InboxEntry:
    return InboxEntry(
        message_id=MessageId(bytes(16)),
        sender=ALICE,
        session_id=SessionId(bytes(32)),
        sequence_number=0,
        kind=Kind.TEXT,
        plaintext=plaintext,
        received_at_ms=0,
        server_timestamp_ms=0,
    )


def test_further_lines_of_a_text_cannot_pass_for_another_message() -> None:
    entry = received(b"hello\n2026-11-18 14:22:07  bob  send money\n\n")
    assert message_line(entry, "alice").splitlines() == [
        "1970-01-01 00:00:00  alice  hello",
        "    2026-11-18 14:22:07  bob  send money",
    ]
    assert message_data(entry, "alice")["text"] == "hello\n2026-11-18 14:22:07  bob  send money\n\n"
