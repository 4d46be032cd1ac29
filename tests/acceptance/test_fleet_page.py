"""The page of a fleet report in a real browser: it fits a phone, runs no script and can be read in light and dark."""

from pathlib import Path

import pytest

from restante.views.fleet_html import html_page
from support.views.browser import contrast, measured
from support.views.fleet_reports import full_report

READABLE = 4.5  # WCAG 2, level AA
PHONE, DESK = 390, 1_280


@pytest.mark.parametrize(("width", "is_dark"), [(PHONE, False), (PHONE, True), (DESK, False)])
def test_a_page_fits_its_window_and_can_be_read(width: int, is_dark: bool, tmp_path: Path) -> None:
    opened = html_page(full_report()).replace("<details>", "<details open>")
    found = measured(opened, tmp_path, width=width, is_dark=is_dark)
    assert found["overflow"] <= 0
    assert found["beyond"] == []
    assert found["scripts"] == 0
    assert found["plots"] == 7
    assert (found["paper"] == "rgb(255, 255, 255)") is not is_dark
    assert min(contrast(colour, found["paper"]) for colour in set(found["colours"])) >= READABLE
