"""What a command says of an option or a value that it does not know: in our words, with a code and the next step."""

from typing import Any, Final, cast

import typer

from restante.cli.terminal import HINT
from restante.model.errors import ConfigurationInvalid, RestanteError

USAGE_ERROR: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])
"""The base class of typer's own errors: unknown options, missing arguments, values of the wrong type."""

NOT_A_NUMBER: Final = {
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "int_parsing_size": "is too large",
    "float_parsing": "is not a number",
    "finite_number": "is not a finite number",
}
BEYOND: Final = {
    "greater_than_equal": ("below", "ge"),
    "greater_than": ("not above", "gt"),
    "less_than_equal": ("above", "le"),
    "less_than": ("not below", "lt"),
}
_CHOICES: Final = " is not one of "


def usage_error(problem: typer.BadParameter) -> RestanteError:
    """Return the error to show for one of typer's."""
    error = ConfigurationInvalid(_text(problem))
    if problem.ctx is not None:
        error.add_note(f"{HINT}See '{problem.ctx.command_path} --help'.")
    return error


def _text(problem: typer.BadParameter) -> str:
    param, cause = getattr(problem, "param", None), problem.__cause__
    found = cause.errors() if param is not None and cause is not None and hasattr(cause, "errors") else []
    if not found:
        return problem.format_message().removesuffix(".")
    return f"{_name(param)}: {_reason(found[0])}"


def _name(param: Any) -> str:
    """Return an option with its hyphens, an argument as the usage line shows it."""
    return (
        str(max(param.opts, key=len)) if param.param_type_name == "option" else str(param.metavar or param.name.upper())
    )


def _reason(error: dict[str, Any]) -> str:
    kind, value, more = error["type"], f"'{error['input']}'", error.get("ctx", {})
    if kind in NOT_A_NUMBER:
        return f"{value} {NOT_A_NUMBER[kind]}"
    if kind in BEYOND:
        word, limit = BEYOND[kind]
        return f"{value} is {word} {more[limit]:,g}"
    said = str(more.get("error", error["msg"])).removesuffix(".")
    _, is_choice, choices = said.partition(_CHOICES)
    return f"{value} is none of {_unquoted(choices)}" if is_choice else said


def _unquoted(text: str) -> str:
    return text.replace("'", "")
