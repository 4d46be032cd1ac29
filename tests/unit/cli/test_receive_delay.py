"""How long a command waits before its receiving connection (SPEC 6.5)."""

import pytest

from restante.cli.client.home import INTERACTIVE_RECEIVE_DELAY_S, receive_delay_s
from support.spec.clauses import clause


@clause("6.5")
@pytest.mark.parametrize(
    ("only_receives", "is_terminal", "expected"),
    [
        (True, True, 0.0),
        (True, False, INTERACTIVE_RECEIVE_DELAY_S),
        (False, True, INTERACTIVE_RECEIVE_DELAY_S),
        (False, False, INTERACTIVE_RECEIVE_DELAY_S),
    ],
)
def test_only_a_person_who_fetches_mail_does_not_wait(only_receives: bool, is_terminal: bool, expected: float) -> None:
    assert receive_delay_s(only_receives=only_receives, is_terminal=is_terminal) == expected
