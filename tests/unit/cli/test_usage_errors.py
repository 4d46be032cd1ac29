"""What is said of an option or a value that a command does not know: our words, a code and the next step."""

import json

import pytest

from restante.cli.main import app, run
from restante.model.kinds import Kind

KINDS = ", ".join(Kind)


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        run(app, args)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("send", "bob", "hi", "--kind", "foo"), f"--kind: 'foo' is none of {KINDS}"),
        (("policy", "kind"), "TOPIC: 'kind' is none of kinds, retry, "),
        (("send", "bob", "hi", "--ttl-s", "soon"), "--ttl-s: 'soon' is not a whole number"),
        (("send", "bob", "hi", "--ttl-s", "1.5"), "--ttl-s: '1.5' is not a whole number"),
        (("send", "bob", "hi", "--timeout-s", "soon"), "--timeout-s: 'soon' is not a number"),
        (("send", "bob", "hi", "--timeout-s", "-1"), "--timeout-s: '-1' is below 0"),
        (("send", "bob", "hi", "--timeout-s", "86401"), "--timeout-s: '86401' is above 86,400"),
        (("inbox", "--idle-timeout-ms", "5"), "--idle-timeout-ms: '5' is below 100"),
        (("send", "bob", "hi", "--king", "text"), "No such option: --king"),
        (("send", "bob"), "Missing argument"),
        (("polcy",), "No such command 'polcy'"),
    ],
)
def test_a_wrong_value_is_an_error_with_a_code_and_what_is_allowed(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], error: str
) -> None:
    said, hint = refused(capsys, *args)
    assert said.startswith(f"error E107: {error}")
    words = "restante" if args == ("polcy",) else f"restante {args[0]}"
    assert hint == f"  hint: See '{words} --help'."


def test_with_json_it_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    [line] = refused(capsys, "send", "bob", "hi", "--kind", "foo", "--json")
    assert json.loads(line)["error"] == {
        "code": "E107",
        "text": f"--kind: 'foo' is none of {KINDS}",
        "notes": [],
        "hint": "See 'restante send --help'.",
    }
