"""`restante config`: the settings in force and the source of each."""

from typing import Annotated

import typer

from restante.cli.configuration_page import configuration_page
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.runtime.settings_loader import SHIP_TO, known_settings
from restante.views import formatting
from restante.views.text_tables import table


def config(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with plain numbers.")] = False,
    reference: Annotated[bool, typer.Option("--reference", help="Print the reference page, in Markdown.")] = False,
) -> None:
    """Show the settings in force and the source of each."""
    if reference:
        typer.echo(configuration_page(), nl=False)
        return
    inputs = inputs_of(ctx)
    loaded = inputs.load()
    values = {one.key: getattr(getattr(loaded.settings, one.section), one.name) for one in known_settings()}
    file = inputs.file()
    if as_json:
        values |= {SHIP_TO: loaded.ship_to}
        shown = {key: {"value": value, "source": loaded.sources[key]} for key, value in values.items()}
        print_json({"file": None if file is None else str(file), "settings": shown})
        return
    rows = [
        (one.key, formatting.quantity(values[one.key], one.allowed.unit), loaded.sources[one.key])
        for one in known_settings()
    ]
    rows.append((SHIP_TO, loaded.ship_to or "none", loaded.sources[SHIP_TO]))
    title = "Settings in force, no file read" if file is None else f"Settings in force, file {file}"
    console().print(table(title, "key", "value", "source", rows=rows, right=("value",)))
