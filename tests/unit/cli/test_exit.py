"""How a command ends: statuses, error lines and the options it shares with all others."""

import pytest
import typer

from restante.cli.error_advice import advice_for, exit_status
from restante.cli.main import run
from restante.cli.shared_options import parse_assignments
from restante.cli.terminal import HINT
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, OutboxFull, OutOfRange


def end_of(problem: BaseException | None) -> int:
    """The exit status of a command that ends with `problem`."""
    application = typer.Typer()

    @application.command()
    def doomed() -> None:
        if problem:
            raise problem

    with pytest.raises(SystemExit) as ended:
        run(application, [])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_a_command_that_ends_well_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(None) == 0
    assert capsys.readouterr() == ("", "")


def test_bad_input_ends_with_two_and_a_line_that_starts_with_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    problem = OutOfRange("ttl", 5, low=10, high=60, unit="s")
    problem.add_note("set by somebody")
    assert end_of(problem) == 2
    assert capsys.readouterr().err.splitlines()[:2] == ["error E102: ttl = 5 is outside 10..60 s", "  set by somebody"]


def test_a_failure_ends_with_one_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(OutboxFull("the outbox holds 10000 of 10000 [entries]", limit=1)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "error E104: the outbox holds 10000 of 10000 [entries]"
    assert err.splitlines()[1].startswith("  hint: Wait until messages are sent")


def test_a_command_may_know_better_what_to_do_than_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    problem = OutboxFull("full", limit=1)
    problem.add_note(f"{HINT}Look elsewhere.")
    assert end_of(problem) == 1
    assert capsys.readouterr().err.splitlines() == ["error E104: full", "  hint: Look elsewhere."]


def test_a_long_error_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    end_of(OutboxFull("word " * 60 + "end", limit=1))
    assert capsys.readouterr().err.splitlines()[0].endswith("word end")


def test_an_interrupted_command_ends_with_130_and_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(KeyboardInterrupt()) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_bug_is_not_dressed_up_as_one_of_our_errors() -> None:
    application = typer.Typer(pretty_exceptions_enable=False)

    @application.command()
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(application, [])


@pytest.mark.parametrize("code", Code)
def test_every_code_has_one_line_of_advice_and_a_status(code: Code) -> None:
    assert advice_for(code).endswith(".")
    assert "\n" not in advice_for(code)
    assert exit_status(code) in (1, 2)


@pytest.mark.parametrize("code", ["E101", "E102", "E107"])
def test_what_the_user_can_correct_in_the_command_ends_with_two(code: str) -> None:
    assert exit_status(Code(code)) == 2


def test_assignments_are_split_at_the_first_equals_sign_and_the_later_wins() -> None:
    assert parse_assignments(["a.b=1", "c.d = x=y", "a.b=2"]) == {"a.b": "2", "c.d": "x=y"}


def test_an_assignment_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"--set retry\.base_ms has no '='"):
        parse_assignments(["retry.base_ms"])
