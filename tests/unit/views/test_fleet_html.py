"""The page of a fleet report: what it shows first, what it escapes, and what it never contains."""

import re
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser

from restante.model.conservation_report import DayBalance
from restante.model.fleet_report import FleetReport
from restante.model.provenance import MissingSegment, Provenance
from restante.views.fleet_html import html_page
from restante.views.svg_plots import Scale, log_scale
from support.spec.clauses import clause
from support.views.fleet_reports import NASTY, full_report, level

PAGE = html_page(full_report())


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes.extend(attrs)


def test_the_page_has_no_script_and_loads_nothing() -> None:
    tags = Tags(PAGE)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form", "base"} & set(tags.names)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in {"src", "href", "action"}]
    assert "url(" not in PAGE
    assert "default-src 'none'" in PAGE


def test_names_from_the_lake_are_shown_as_text() -> None:
    assert NASTY not in PAGE
    assert PAGE.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


@clause("1.7")
def test_the_delivery_rate_and_its_target_come_before_everything_else() -> None:
    text = re.sub(r"<style>.*?</style>", "", PAGE, flags=re.DOTALL)
    rate = text.index("delivery rate")
    assert rate < text.index("<svg") < text.index("<table")
    tiles = re.findall(r'<li class="(\w+)"><span>(.*?)</span><b>(.*?)</b><small>(.*?)</small>', PAGE)
    assert [(state, value) for state, _, value, _ in tiles] == [
        ("met", "99.995%"),
        ("met", "480 ms"),
        ("missed", "12,345 ms"),
        ("met", "0.000%"),
    ]


def test_each_hour_of_three_weeks_is_a_cell_with_its_value() -> None:
    assert PAGE.count('class="t') >= 21 * 24
    assert "2026-01-21 23:00: 300 messages" in PAGE


def test_an_hour_written_by_a_clock_years_ahead_does_not_displace_the_others() -> None:
    report = full_report()
    ahead = level(24 * 3_650)
    assert "2026-01-21 23:00" in html_page(replace(report, levels=(*report.levels, ahead)))


def test_dead_letters_are_ranked_by_cause_with_the_meaning_of_the_code() -> None:
    assert PAGE.index("E001 network unreachable") < PAGE.index("E010 ttl expired")


def test_long_tables_are_closed_until_they_are_opened() -> None:
    assert "<summary>Signed for and withheld: 60 rows (10 more are not shown)</summary>" in PAGE


def verdict(report: FleetReport) -> str:
    found = re.search(r'<p class="verdict[^"]*">(.*?)</p>', html_page(report))
    assert found is not None
    return found[1]


def test_the_first_sentence_names_what_was_found_and_claims_nothing_else() -> None:
    report = full_report()
    balanced = DayBalance(day=date(2026, 1, 5), accepted=2, delivered=2)
    sound = replace(
        report,
        conservation=replace(
            report.conservation,
            days=(balanced,),
            unaccounted=(),
            missing_events=(),
            missing_event_count=0,
            bad_files=(),
            quarantine=(),
        ),
        withheld=(),
        withheld_count=0,
    )
    assert sound.sound
    withheld = verdict(replace(sound, withheld_count=3))
    assert withheld.startswith("Found: 3 messages withheld by nodes. ")
    assert "unaccounted for" not in withheld
    lost = Provenance(verified=1, missing=(MissingSegment(writer="aa", before="b"),), contested=("cc",))
    said = verdict(replace(sound, provenance=lost))
    assert said.startswith("Found: 1 missing segments, 1 writers that two enrolled keys claim. ")


def test_an_empty_report_is_a_page() -> None:
    report = full_report()
    empty = replace(
        report,
        conservation=replace(report.conservation, days=(), latency=()),
        levels=(),
        histogram=(),
        nodes=(),
        letters=(),
    )
    page = html_page(empty)
    assert "no data" in page
    assert "No node has journaled its id." in page


def test_a_logarithmic_axis_has_whole_decades() -> None:
    scale = log_scale([5.0, None, 2_000_000.0], low=100, high=10_000)
    assert (scale.low, scale.high) == (1.0, 10_000_000.0)
    assert scale.y(1.0) > scale.y(1_000.0) > scale.y(10_000_000.0)
    assert Scale(low=0, high=4).ticks() == [0, 1, 2, 3, 4]
