"""The fleet report on a terminal: each node that withheld messages is named once."""

import io

from rich.console import Console

from restante.views.fleet_text import print_fleet_report
from support.views.fleet_reports import NODE, full_report


def printed(width: int = 80) -> str:
    out = io.StringIO()
    print_fleet_report(Console(file=out, width=width, highlight=False), full_report())
    return out.getvalue()


def test_a_node_that_withheld_many_messages_is_named_once_with_the_first_of_them() -> None:
    lines = printed().splitlines()
    [named] = [line for line in lines if line.startswith("withheld: ")]
    assert named.startswith(f"withheld: node {NODE.hex()} signed for 60 messages, missing in a list")
    at = lines.index(named)
    assert all(line.startswith("  message ") for line in lines[at + 1 : at + 4])
    assert lines[at + 4] == "  and 57 more"


def test_a_report_that_is_not_sound_says_first_what_was_found() -> None:
    assert printed(400).splitlines()[0].startswith("Found: ")
    assert "60 messages withheld by nodes" in printed(400).splitlines()[0]
