"""The drawn machines are the real ones."""

from restante.model.states import ENDED, State
from support.docs.mesh_machine_page import MESH_PAGE, mesh_page
from support.docs.state_machine_pages import (
    INBOX_PAGE,
    LINK_PAGE,
    OUTBOX_PAGE,
    inbox_page,
    link_page,
    outbox_moves,
    outbox_page,
)


def test_the_drawing_of_the_outbox_is_current() -> None:
    assert OUTBOX_PAGE.read_text("utf-8") == outbox_page(), "run: make docs"


def test_an_ended_message_moves_only_out_of_the_dead_letters() -> None:
    assert {before for before, _ in outbox_moves() if before in ENDED} == {State.DEAD}


def test_the_drawing_of_the_inbox_is_current() -> None:
    assert INBOX_PAGE.read_text("utf-8") == inbox_page(), "run: make docs"


def test_the_drawing_of_the_link_is_current() -> None:
    assert LINK_PAGE.read_text("utf-8") == link_page(), "run: make docs"


def test_the_drawing_of_the_mesh_is_current() -> None:
    assert MESH_PAGE.read_text("utf-8") == mesh_page(), "run: make docs"
