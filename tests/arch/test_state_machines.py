"""The drawn machines are the real ones."""

from restante.model.states import ENDED, State
from state_machine_pages import OUTBOX_PAGE, outbox_moves, outbox_page


def test_the_drawing_of_the_outbox_is_current() -> None:
    assert OUTBOX_PAGE.read_text("utf-8") == outbox_page(), "run: python tests/state_machine_pages.py"


def test_an_ended_message_moves_only_out_of_the_dead_letters() -> None:
    assert {before for before, _ in outbox_moves() if before in ENDED} == {State.DEAD}
