"""`restante dlq`: list, show, recover, delete and export the dead letters of a client."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.client.options import (
    FileOption,
    IdArgument,
    IdsArgument,
    JsonOption,
    LimitOption,
    PayloadOption,
    YesOption,
    parse_id_prefix,
)
from restante.cli.error_advice import EXIT_UNDELIVERED
from restante.cli.terminal import ask, console, print_json
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, RestanteError
from restante.model.ids import MessageId, show_message_id
from restante.model.states import DeadCategory
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.cli.client.database_file import ClientFile
    from restante.model.outbox_entry import StoredDeadLetter

app = typer.Typer(
    help="List, recover, delete and export dead letters: messages that could not be delivered.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
CategoryOption = Annotated[DeadCategory | None, typer.Option(help="Only dead letters of this category.")]


@app.command("list")
def list_dead_letters(
    ctx: typer.Context,
    file: FileOption = None,
    category: CategoryOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List the dead letters, oldest first. Exit status 3 if there are any."""
    from restante.cli.client.database_file import open_client_database
    from restante.views.messages import dead_letter_data, dead_letter_row

    with open_client_database(ctx, file) as client:
        dead = client.reading.dead_by_category()
        found = client.reading.letters(category=category, limit=limit)
    total = sum(held.messages for each, held in dead.items() if category in (None, each))
    if as_json:
        print_json({"total": total, "now_ms": client.now_ms, "dead_letters": [dead_letter_data(one) for one in found]})
    elif not found:
        console().print("There are no such dead letters." if category else "There are no dead letters.")
    else:
        _print_letters([dead_letter_row(one, client.now_ms) for one in found], total)
    if total:
        raise typer.Exit(EXIT_UNDELIVERED)


def _print_letters(rows: list[tuple[str, ...]], total: int) -> None:
    columns = ("message", "category", "code", "attempts", "moved", "kept", "retry", "reason", "to")
    right = ("attempts", "moved", "kept", "retry")
    out = console()
    out.print(table(f"Dead letters: {total:,}", *columns, rows=rows, right=right, dense=True))
    if total > len(rows):
        out.print(f"{total - len(rows):,} more; show them with --limit {total}")


@app.command()
def show(
    ctx: typer.Context,
    wanted: IdArgument,
    file: FileOption = None,
    payload: PayloadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show one dead letter: why it failed, until when it is kept, and its journal events."""
    from restante.cli.client.database_file import open_client_database
    from restante.cli.client.message_detail import MessageDetail, print_detail
    from restante.views.messages import dead_letter_data, dead_letter_fields

    digits = parse_id_prefix(wanted)
    with open_client_database(ctx, file) as client:
        letter = _letter(client, client.resolve(digits))
        events = client.journal.history(letter.entry.message_id)
        body = client.outbox.dead_letters.payload(letter) if payload else None
    detail = MessageDetail(
        title=f"Dead letter {show_message_id(letter.entry.message_id)}",
        data=dead_letter_data(letter),
        lines=dead_letter_fields(letter, client.now_ms),
        events=events,
        with_body=payload,
        body=body,
    )
    print_detail(detail, as_json=as_json)


@app.command()
def recover(
    ctx: typer.Context,
    wanted: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Message ids, or --all.")] = None,
    *,
    file: FileOption = None,
    every: Annotated[bool, typer.Option("--all", help="All dead letters of the category.")] = False,
    category: Annotated[DeadCategory, typer.Option(help="With --all: the category.")] = DeadCategory.RETRIABLE,
    as_json: JsonOption = False,
) -> None:
    """Put dead letters back into the outbox, due now, with all attempts available again.

    An expired message is refused (E010). The others are still recovered, and the exit status is 1.
    """
    from restante.cli.client.database_file import change_each, open_client_database, print_results

    if every == bool(wanted):
        raise ConfigurationInvalid("no dead letters given: add their ids, or --all with a --category, but not both")
    digits = [parse_id_prefix(one) for one in wanted or ()]
    with open_client_database(ctx, file, changing=True) as client:
        if every:
            digits = [letter.entry.message_id.hex() for letter in client.reading.letters(category=category, limit=-1)]
        reports = change_each(client, digits, _recover)
    print_results(reports, done="recovered", as_json=as_json)


@app.command()
def delete(
    ctx: typer.Context,
    wanted: IdsArgument,
    file: FileOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete dead letters. Their journal events stay."""
    from restante.cli.client.database_file import change_each, open_client_database, print_results

    digits = [parse_id_prefix(one) for one in wanted]
    if not yes:
        with open_client_database(ctx, file) as client:
            for one in digits:
                _letter(client, client.resolve(one))
        ask(f"Delete {len(digits):,} dead letter{'s' if len(digits) > 1 else ''} for good?", as_json=as_json)
    with open_client_database(ctx, file, changing=True) as client:
        reports = change_each(client, digits, _delete)
    print_results(reports, done="deleted", as_json=as_json)


@app.command()
def export(
    ctx: typer.Context,
    file: FileOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, readable only by you.")
    ] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Include the sealed payloads, as base64.")] = False,
) -> None:
    """Write all dead letters as JSON Lines."""
    from restante.cli.client.database_file import open_client_database
    from restante.cli.client.dead_letter_export import dead_letter_lines, refuse_to_overwrite_database
    from restante.runtime.private_file import write_private

    with open_client_database(ctx, file) as client:
        lines = dead_letter_lines(client, payload=payload)
        if output is None:
            for line in lines:
                typer.echo(line, nl=False)
            return
        refuse_to_overwrite_database(client.path, output)
        written = write_private(output, (line.encode() for line in lines))
    typer.echo(f"{written:,} dead letters written to {output}")


@app.command()
def history(ctx: typer.Context, wanted: IdArgument, file: FileOption = None, as_json: JsonOption = False) -> None:
    """Show the journal events of one message."""
    from restante.cli.client.database_file import open_client_database
    from restante.views.message_timeline import events_data, events_table

    digits = parse_id_prefix(wanted)
    with open_client_database(ctx, file) as client:
        message_id = client.resolve(digits)
        events = client.journal.history(message_id)
    if as_json:
        print_json({"message_id": show_message_id(message_id), "events": events_data(events)})
        return
    out = console()
    out.print(f"Message {show_message_id(message_id)}\n", style="bold")
    out.print(events_table(events))


def _letter(client: "ClientFile", message_id: MessageId) -> "StoredDeadLetter":
    letter = client.outbox.dead_letters.load(message_id)
    if letter is None:
        raise RestanteError(f"it is not a dead letter: its state is {client.where(message_id)}", code=Code.NOT_FOUND)
    return letter


def _recover(client: "ClientFile", message_id: MessageId) -> None:
    from restante.core.outbox_events import Recovered
    from restante.policy.dead_letters import keeps_payload

    if not keeps_payload(_letter(client, message_id).category):
        raise RestanteError("the message has expired and its payload was deleted", code=Code.TTL_EXPIRED)
    client.outbox.apply(message_id, Recovered(), now_ms=client.now_ms)


def _delete(client: "ClientFile", message_id: MessageId) -> None:
    _letter(client, message_id)
    client.outbox.discard(message_id, now_ms=client.now_ms)
