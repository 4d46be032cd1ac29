"""How `outbox check` and `node check` show what they found."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.terminal import console, print_json
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.runtime.sqlite.file.integrity import Check

MOST_FINDINGS: Final = 20  # of one check; JSON has them all


def report_checks(file_name: str, checks: "Sequence[Check]", *, advice: str, as_json: bool) -> None:
    """Print each check and its findings; end with status 1 and `advice` if there are any."""
    is_sound = not any(one.findings for one in checks)
    if as_json:
        print_json({"sound": is_sound, "checks": [{"check": one.name, "findings": one.findings} for one in checks]})
    else:
        _print(file_name, checks)
        if not is_sound:
            console().print(f"\n{advice}")
    if not is_sound:
        raise typer.Exit(EXIT_FAILURE)


def _print(file_name: str, checks: "Sequence[Check]") -> None:
    out = console()
    rows = [
        (one.name, f"{len(one.findings)} finding{'' if len(one.findings) == 1 else 's'}" if one.findings else "ok")
        for one in checks
    ]
    out.print(table(f"Check of {file_name}", "check", "result", rows=rows))
    for one in checks:
        for finding in one.findings[:MOST_FINDINGS]:
            out.print(f"• {finding}", style="red", markup=False)
        if len(one.findings) > MOST_FINDINGS:
            out.print(f"• {len(one.findings) - MOST_FINDINGS:,} more of this kind; --json has them all", style="red")
