"""The clause count, its page and the tiers, tried on small suites of their own."""

import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

INDEX = """
[sections]
1 = "First"
2 = "Second"
10 = "Tenth"
[clauses]
"10.1" = "ten"
"2.1" = "two"
"1.2" = "one and two"
"1.10" = "one and ten"
"""

PASSES = """
from support.spec.clauses import clause

@clause("1.2")
def test_holds(): pass

@clause("2.1", "10.1")
def test_holds_twice(): pass
"""


class Suite:
    """A small project with our own conftest and options as strict as the real ones."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makeini(
            f"""
            [pytest]
            addopts = --strict-markers --strict-config --import-mode=importlib -p no:cacheprovider
            testpaths = tests
            pythonpath = {TESTS}
            filterwarnings = error
            asyncio_default_fixture_loop_scope = function
            clause_index = index.toml
            markers =
                unit: a tier
                sim: a tier
                soak: a long case
                clause(number): a clause
            """
        )
        self.write("index.toml", INDEX)
        self.write("tests/conftest.py", (TESTS / "conftest.py").read_text("utf-8"))

    def write(self, name: str, text: str) -> None:
        path = self.pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*args)

    def page(self, *args: str) -> str:
        self.run("--conformance-report=page.md", *args)
        return (self.pytester.path / "page.md").read_text("utf-8")

    def has_page(self) -> bool:
        return (self.pytester.path / "page.md").exists()


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


def test_clauses_with_a_passing_test_are_counted_and_the_others_listed(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    result = suite.run()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["SPEC clauses with a passing test: 3 of 4", "  without a test: 1.10"])


def test_a_clause_nobody_knows_stops_the_run_and_is_named_with_its_file(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES.replace('"1.2"', '"1.3"'))
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*tests/unit/test_a.py::test_holds names the clause '1.3'*"])
    result.assert_outcomes(passed=0)


@pytest.mark.parametrize("mark", ["@clause()", "@clause(1.2)"])
def test_a_mark_without_a_number_in_text_stops_the_run(suite: Suite, mark: str) -> None:
    suite.write("tests/unit/test_a.py", f"from support.spec.clauses import clause\n\n{mark}\ndef test_holds(): pass\n")
    assert suite.run().ret == pytest.ExitCode.USAGE_ERROR


def test_a_clause_with_a_passing_and_a_failing_test_is_failing(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    suite.write("tests/unit/test_b.py", PASSES.replace("test_holds(): pass", "test_breaks(): assert False"))
    result = suite.run("--conformance-report=page.md")
    result.stdout.fnmatch_lines(["SPEC clauses with a passing test: 2 of 4", "  with a failing test: 1.2"])
    page = suite.page()
    assert "- **1.2** one and two: *failing*\n" in page
    assert "  - failed: `tests/unit/test_b.py::test_breaks`\n" in page


@pytest.mark.parametrize(
    "body",
    [
        "@pytest.mark.skip(reason='later')\n@clause('1.2')\ndef test_it(): pass",
        "@pytest.mark.xfail\n@clause('1.2')\ndef test_it(): assert False",
        "@pytest.mark.xfail(strict=False)\n@clause('1.2')\ndef test_it(): pass",
    ],
    ids=["skipped", "expected to fail", "passed although expected to fail"],
)
def test_a_test_that_did_not_plainly_pass_speaks_for_no_clause(suite: Suite, body: str) -> None:
    suite.write("tests/unit/test_a.py", f"import pytest\nfrom support.spec.clauses import clause\n\n{body}\n")
    result = suite.run()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["SPEC clauses with a passing test: 0 of 4"])


@pytest.mark.parametrize("phase", ["before", "after"])
def test_an_error_around_a_test_makes_its_clause_failing(suite: Suite, phase: str) -> None:
    body = "assert False\n    yield" if phase == "before" else "yield\n    assert False"
    suite.write(
        "tests/unit/test_a.py", f"import pytest\n{PASSES}\n@pytest.fixture(autouse=True)\ndef f():\n    {body}\n"
    )
    suite.run().stdout.fnmatch_lines(["  with a failing test: 1.2, 2.1, 10.1"])


def test_one_failing_instance_fails_the_whole_parametrised_test(suite: Suite) -> None:
    suite.write(
        "tests/unit/test_a.py",
        """
        import pytest
        from support.spec.clauses import clause

        @clause("1.2")
        @pytest.mark.parametrize("n", [1, 2, 3])
        def test_small(n): assert n != 2
        """,
    )
    page = suite.page()
    assert "- **1.2** one and two: *failing*\n  - failed: `tests/unit/test_a.py::test_small`\n" in page
    assert page.count("test_small") == 1


def test_the_page_lists_clauses_in_the_order_of_the_specification(suite: Suite) -> None:
    suite.write("tests/unit/test_b.py", PASSES)
    suite.write("tests/unit/test_a.py", PASSES)
    assert suite.page() == textwrap.dedent(
        """\
        # Conformance

        Which clauses of SPEC are shown to hold, and by which tests. Written by `make test`; do not edit.
        Where all tests of a clause are in `tests/unit` or `tests/vectors`, its rule or its bytes are shown to hold;
        the part of the product that applies them may still be missing. *Partial*: tests pass, but no test shows what
        the line "missing" names. *Open*: no test yet. *Planned*: no open issue builds it.

        Clauses: 4. passing: 3, partial: 0, failing: 0, open: 1, planned: 0.

        ## 1. First

        - **1.2** one and two: *passing*
          - `tests/unit/test_a.py::test_holds`
          - `tests/unit/test_b.py::test_holds`
        - **1.10** one and ten: *open*

        ## 2. Second

        - **2.1** two: *passing*
          - `tests/unit/test_a.py::test_holds_twice`
          - `tests/unit/test_b.py::test_holds_twice`

        ## 10. Tenth

        - **10.1** ten: *passing*
          - `tests/unit/test_a.py::test_holds_twice`
          - `tests/unit/test_b.py::test_holds_twice`
        """
    )


def test_a_clause_with_a_missing_part_is_partial_and_one_without_tests_may_be_planned(suite: Suite) -> None:
    suite.write(
        "index.toml", INDEX + '[missing]\n"1.2" = "the rest"\n[planned]\n"1.10" = "all of it"\n"10.1" = "more"\n'
    )
    suite.write("tests/unit/test_a.py", PASSES)
    page = suite.page()
    assert "- **1.2** one and two: *partial*\n  - `tests/unit/test_a.py::test_holds`\n  - missing: the rest\n" in page
    assert "- **1.10** one and ten: *planned*\n" in page
    assert "- **10.1** ten: *passing*\n  - `tests/unit/test_a.py::test_holds_twice`\n  - planned: more\n" in page


def test_equal_results_give_the_same_page_whatever_the_order_of_the_tests(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    suite.write("tests/sim/test_b.py", PASSES)
    first = suite.page()
    suite.write("turned.py", "def pytest_collection_modifyitems(items): items.reverse()")
    suite.pytester.syspathinsert()
    assert suite.page("-p", "turned") == first


@pytest.mark.parametrize(
    "args",
    [
        ("-k", "holds"),
        ("-m", "unit"),
        ("tests",),
        ("tests/unit/test_a.py::test_holds",),
        ("--deselect", "tests/unit/test_a.py::test_holds_twice"),
        ("--ignore", "tests/sim"),
        ("--collect-only",),
    ],
)
def test_a_selection_writes_no_page(suite: Suite, args: tuple[str, ...]) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    result = suite.run("--conformance-report=page.md", *args)
    assert result.ret == pytest.ExitCode.OK
    assert not suite.has_page()
    result.stdout.fnmatch_lines(["the conformance page was not written*"])


def test_a_run_that_stopped_at_a_failure_writes_no_page(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", "def test_breaks(): assert False\n")
    suite.write("tests/unit/test_b.py", PASSES)
    suite.run("--conformance-report=page.md", "-x")
    assert not suite.has_page()


def test_a_run_with_a_file_that_cannot_be_collected_writes_no_page(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    suite.write("tests/unit/test_b.py", "1 / 0\n")
    suite.run("--conformance-report=page.md")
    assert not suite.has_page()


def test_the_directory_gives_a_test_its_tier(suite: Suite) -> None:
    suite.write("tests/unit/deep/test_a.py", "def test_a(): pass\n")
    suite.write("tests/sim/test_b.py", "def test_b(): pass\n")
    suite.run("-m", "sim").assert_outcomes(passed=1, deselected=1)
    suite.run("-m", "unit").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("name", ["tests/test_a.py", "tests/other/test_a.py"])
def test_a_test_outside_the_tiers_stops_the_run(suite: Suite, name: str) -> None:
    suite.write(name, "def test_a(): pass\n")
    result = suite.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*outside a tier directory*: {name.removeprefix('tests/')}"])


SOAK = """
import pytest
from support.system.soak import first_now_rest_in_soak

@pytest.mark.parametrize("seed", first_now_rest_in_soak(range(5)))
def test_a(seed): pass
"""


def test_an_ordinary_run_takes_one_case_of_a_soak_and_still_counts_as_whole(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", SOAK)
    suite.run("--conformance-report=page.md").assert_outcomes(passed=1)
    assert suite.has_page()


def test_a_soak_run_takes_the_other_cases_only_and_writes_no_page(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", SOAK)
    suite.write("tests/unit/test_b.py", PASSES)
    suite.run("--soak", "--conformance-report=page.md").assert_outcomes(passed=4)
    assert not suite.has_page()


def test_claims_arrive_from_every_test_process(suite: Suite) -> None:
    suite.write("tests/unit/test_a.py", PASSES)
    suite.write("tests/sim/test_b.py", PASSES.replace('"1.2"', '"1.10"'))
    page = suite.page("-n", "2", "--dist", "loadfile")
    assert "passing: 4, partial: 0, failing: 0, open: 0" in page
