"""The page of journal columns says what the declaration says."""

from support.docs.journal_page import JOURNAL_PAGE, journal_page


def test_the_page_is_current() -> None:
    assert JOURNAL_PAGE.read_text("utf-8") == journal_page(), "run `make docs`"
