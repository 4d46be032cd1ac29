"""views/received_messages: one line for each message, and one for what is held back."""

from restante.model.ids import Address
from restante.model.inbox_entry import HeldBack
from restante.views.received_messages import held_back_data, held_back_line
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
