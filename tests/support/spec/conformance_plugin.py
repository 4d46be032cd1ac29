"""Counts the clauses of SPEC that have a passing test, and writes the conformance page.

A test claims clauses with `@clause("4.1")`. The claims travel in `report.user_properties`, so they arrive wherever the
results do. The page depends on results alone: equal results give equal bytes. It does not know what a clause means.
"""

import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

PROPERTY = "clause"


class Standing(Enum):
    """What the tests of a clause say about it."""

    PASSING = "passing"
    PARTIAL = "partial"
    FAILING = "failing"
    OPEN = "open"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class Index:
    """The known clauses, in the order of SPEC, with what no test shows yet and what no open issue builds."""

    sections: Mapping[str, str]
    clauses: Mapping[str, str]
    missing: Mapping[str, str]
    planned: Mapping[str, str]


def read_index(path: Path) -> Index:
    """The clause index; its numbers may stand in any order in the file."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise pytest.UsageError(f"the clause index {path} cannot be read: {problem}") from None
    numbers = sorted(content["clauses"], key=place)
    return Index(
        sections=content["sections"],
        clauses={number: content["clauses"][number] for number in numbers},
        missing=content.get("missing", {}),
        planned=content.get("planned", {}),
    )


def place(number: str) -> tuple[int, ...]:
    """4.10 comes after 4.9."""
    return tuple(int(part) for part in number.split("."))


def claims_of(item: pytest.Item) -> list[object]:
    """The numbers that the marks of a test name, not checked yet."""
    return [number for mark in item.iter_markers("clause") for number in (mark.args or (None,))]


@dataclass(slots=True)
class Results:
    """Test functions by clause. The instances of a parametrised test stand or fall together."""

    passed: dict[str, set[str]] = field(default_factory=dict)
    failed: dict[str, set[str]] = field(default_factory=dict)

    def add(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0]
        was_expected_to_fail = hasattr(report, "wasxfail")
        for key, number in report.user_properties:
            if key != PROPERTY:
                continue
            if report.failed:
                self.failed.setdefault(str(number), set()).add(name)
            elif report.when == "call" and report.passed and not was_expected_to_fail:
                self.passed.setdefault(str(number), set()).add(name)

    def standing(self, number: str, index: Index) -> Standing:
        if self.failed.get(number):
            return Standing.FAILING
        if self.passed.get(number):
            return Standing.PARTIAL if number in index.missing else Standing.PASSING
        return Standing.PLANNED if number in index.planned else Standing.OPEN

    def tests(self, number: str) -> tuple[list[str], list[str]]:
        """Those that passed and those that failed; one that did both failed."""
        failed = self.failed.get(number, set())
        return sorted(self.passed.get(number, set()) - failed), sorted(failed)


def render_page(index: Index, results: Results) -> str:
    """The page as Markdown: a line of numbers, then every clause with the tests that speak for it."""
    standings = [results.standing(number, index) for number in index.clauses]
    lines = [
        "# Conformance",
        "",
        "Which clauses of SPEC are shown to hold, and by which tests. Written by `make test`; do not edit.",
        "Where all tests of a clause are in `tests/unit` or `tests/vectors`, its rule or its bytes are shown to hold;",
        "the part of the product that applies them may still be missing. *Partial*: tests pass, but no test shows what",
        'the line "missing" names. *Open*: no test yet. *Planned*: no open issue builds it.',
        "",
        f"Clauses: {len(standings)}. " + ", ".join(f"{s.value}: {standings.count(s)}" for s in Standing) + ".",
    ]
    section = None
    for (number, title), standing in zip(index.clauses.items(), standings, strict=True):
        if number.split(".")[0] != section:
            section = number.split(".")[0]
            lines += ["", f"## {section}. {index.sections[section]}", ""]
        lines.append(f"- **{number}** {title}: *{standing.value}*")
        passed, failed = results.tests(number)
        lines += [f"  - `{name}`" for name in passed]
        lines += [f"  - failed: `{name}`" for name in failed]
        for label, notes in (("missing", index.missing), ("planned", index.planned)):
            lines += [f"  - {label}: {notes[number]}"] if number in notes else []
    return "\n".join(lines) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("clause_index", "the list of SPEC clauses", default="docs/reference/clauses.toml")
    parser.getgroup("conformance").addoption(
        "--conformance-report",
        metavar="PATH",
        type=Path,
        help="write a Markdown page of clauses and their passing tests, if the whole suite was run",
    )


def pytest_configure(config: pytest.Config) -> None:
    index = read_index(config.rootpath / str(config.getini("clause_index")))
    config.pluginmanager.register(Conformance(config, index), "conformance")


class Conformance:
    """The plugin of one run."""

    def __init__(self, config: pytest.Config, index: Index) -> None:
        self.config = config
        self.index = index
        self.results = Results()
        self.is_partial = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or any(
            config.getoption(name) for name in ("keyword", "markexpr", "ignore", "ignore_glob", "collectonly", "soak")
        )
        self.page: Path | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        unknown = set()
        for item in items:
            for number in claims_of(item):
                if number in self.index.clauses:
                    item.user_properties.append((PROPERTY, number))
                else:
                    unknown.add(f"{item.nodeid.partition('[')[0]} names the clause {number!r}")
        if unknown:
            raise pytest.UsageError("; ".join(sorted(unknown)) + ": not in the clause index")

    def pytest_deselected(self) -> None:
        self.is_partial = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.results.add(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ran_to_the_end = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        self.is_partial |= not ran_to_the_end or bool(session.shouldfail or session.shouldstop)
        path = self.config.getoption("conformance_report")
        is_worker = hasattr(self.config, "workerinput")  # pytest-xdist: only the controller sees all results
        if path and not self.is_partial and not is_worker:
            path.write_text(render_page(self.index, self.results), "utf-8")
            self.page = path

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_standing: dict[Standing, list[str]] = {standing: [] for standing in Standing}
        for number in self.index.clauses:
            by_standing[self.results.standing(number, self.index)].append(number)
        write = terminalreporter.write_line
        write(f"SPEC clauses with a passing test: {len(by_standing[Standing.PASSING])} of {len(self.index.clauses)}")
        if by_standing[Standing.FAILING]:
            write(fill("with a failing test", by_standing[Standing.FAILING]))
        if not self.is_partial:
            for label, standing in (("partial", Standing.PARTIAL), ("without a test", Standing.OPEN)):
                if by_standing[standing]:
                    write(fill(label, by_standing[standing]))
        if self.page:
            write(f"written: {self.page}")
        elif self.config.getoption("conformance_report"):
            write("the conformance page was not written: this was not a run of the whole suite")


def fill(label: str, numbers: list[str]) -> str:
    return textwrap.fill(f"{label}: {', '.join(numbers)}", 100, initial_indent="  ", subsequent_indent="    ")
