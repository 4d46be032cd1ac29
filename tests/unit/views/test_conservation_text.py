"""views/conservation_text: the first sentence says whether messages arrived, not only that they are accounted for."""

from restante.model.conservation_report import DayBalance
from restante.views.conservation_text import failed, outcome_line
from support.spec.clauses import clause


@clause("13.4")
def test_messages_that_failed_are_named_first_although_the_balance_holds() -> None:
    balance = DayBalance(day=None, accepted=10, delivered=4, expired=2, evicted=1, dead=3)
    assert failed(balance) == 6
    assert outcome_line(balance) == (
        "Not delivered: 3 dead, 2 expired, 1 evicted. 4 of 10 accepted messages were delivered."
    )


def test_messages_in_flight_are_not_called_delivered() -> None:
    balance = DayBalance(day=None, accepted=10, delivered=4, in_flight=6)
    assert outcome_line(balance) == "4 of 10 accepted messages were delivered, 6 are in flight, none failed."


@clause("13.5")
def test_what_a_node_stored_and_no_recipient_had_is_said_without_naming_a_node() -> None:
    balance = DayBalance(day=None, accepted=5, delivered=2, expired=2, dead=1, stored_never_arrived=2)
    assert outcome_line(balance) == (
        "Not delivered: 1 dead, 2 expired (2 stored, never arrived). 2 of 5 accepted messages were delivered."
    )
