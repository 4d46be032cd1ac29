"""`restante outbox`: list, show and cancel messages in flight, show totals, check the file."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

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
from restante.cli.integrity_report import report_checks
from restante.cli.terminal import ask, console, print_json
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId, show_message_id
from restante.model.states import State
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.cli.client.database_file import ClientFile

app = typer.Typer(
    help="List, show and cancel messages in flight, show totals, check the file.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class InFlight(StrEnum):
    """The states a message of the outbox can be in."""

    PENDING = State.PENDING.value
    SENDING = State.SENDING.value
    SENT = State.SENT.value


@app.command("list")
def list_entries(
    ctx: typer.Context,
    *,
    file: FileOption = None,
    state: Annotated[InFlight | None, typer.Option(help="Only messages in this state.")] = None,
    lane: Annotated[str | None, typer.Option(help="Only messages of this lane.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List the messages in flight, oldest first."""
    from restante.cli.client.database_file import open_client_database
    from restante.views.messages import entry_data, entry_row

    only = None if state is None else State(state)
    with open_client_database(ctx, file) as client:
        total = client.reading.count_waiting(state=only, lane=lane)
        found = client.reading.waiting(state=only, lane=lane, limit=limit)
    if as_json:
        print_json({"total": total, "now_ms": client.now_ms, "messages": [entry_data(one) for one in found]})
        return
    out = console()
    if not found:
        out.print("No such message is in flight." if only or lane else "Nothing is in flight.")
        return
    columns = ("message", "state", "kind", "attempts", "next", "expires", "error", "to")
    rows = [entry_row(one, client.now_ms) for one in found]
    right = ("attempts", "next", "expires")
    out.print(table(f"In flight: {total:,}", *columns, rows=rows, right=right, dense=True))
    if total > len(found):
        out.print(f"{total - len(found):,} more; show them with --limit {total}")


@app.command()
def show(
    ctx: typer.Context,
    wanted: IdArgument,
    file: FileOption = None,
    payload: PayloadOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show one message and its journal events, even if it has ended."""
    from restante.cli.client.database_file import open_client_database
    from restante.cli.client.message_detail import MessageDetail, print_detail

    digits = parse_id_prefix(wanted)
    with open_client_database(ctx, file) as client:
        message_id = client.resolve(digits)
        events = client.journal.history(message_id)
        data, lines = _details_of(client, message_id)
        platform_message_id = client.outbox.ended.find_platform_id(message_id)
        body = _payload(client, message_id) if payload else None
    if platform_message_id is not None:
        data["platform_message_id"] = platform_message_id
        lines.append(("id at the platform", platform_message_id))
    title = f"Message {show_message_id(message_id)}"
    detail = MessageDetail(title=title, data=data, lines=lines, events=events, with_body=payload, body=body)
    print_detail(detail, as_json=as_json)


@app.command()
def cancel(
    ctx: typer.Context,
    wanted: IdsArgument,
    file: FileOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cancel messages: they are not sent and become dead letters.

    A message that was already sent may still arrive.
    """
    from restante.cli.client.database_file import change_each, open_client_database, print_results

    digits = [parse_id_prefix(one) for one in wanted]
    if not yes:
        with open_client_database(ctx, file) as client:
            for message_id in map(client.resolve, digits):
                _require_in_flight(client, message_id)
        ask(f"Cancel {len(digits):,} message{'s' if len(digits) > 1 else ''}?", as_json=as_json)
    with open_client_database(ctx, file, changing=True) as client:
        reports = change_each(client, digits, _cancel)
    print_results(reports, done="cancelled", as_json=as_json)


@app.command()
def stats(ctx: typer.Context, file: FileOption = None, as_json: JsonOption = False) -> None:
    """Show which messages failed, how many are in flight, and how full the outbox is.

    Exit status 3 if messages are dead, expired or were evicted.
    """
    from restante.cli.client.database_file import open_client_database
    from restante.cli.client.outbox_stats import has_failures, print_stats, stats_data

    with open_client_database(ctx, file) as client:
        data = stats_data(client)
    if as_json:
        print_json(data)
    else:
        print_stats(console(), data)
    if has_failures(data):
        raise typer.Exit(EXIT_UNDELIVERED)


@app.command()
def check(ctx: typer.Context, file: FileOption = None, as_json: JsonOption = False) -> None:
    """Check the integrity of the file. Exit status 1 if there are findings."""
    from restante.cli.client.database_file import open_client_database
    from restante.runtime.sqlite.file.integrity import check_file

    with open_client_database(ctx, file) as client:
        checks = check_file(client.database)
    advice = "Stop the program that uses the file, keep a copy of it, and restore a backup."
    report_checks(client.path.name, checks, advice=advice, as_json=as_json)


def _details_of(client: "ClientFile", message_id: MessageId) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    from restante.views import messages as views

    waiting = client.reading.one_waiting(message_id)
    if waiting is not None:
        return views.entry_data(waiting), list(views.entry_fields(waiting, client.settings, client.now_ms))
    letter = client.outbox.dead_letters.load(message_id)
    if letter is not None:
        return views.dead_letter_data(letter), list(views.dead_letter_fields(letter, client.now_ms))
    delivered = client.reading.ended(message_id)
    if delivered is not None:
        return views.delivered_data(delivered), list(views.delivered_fields(delivered, client.now_ms))
    return {"message_id": show_message_id(message_id), "state": None}, [
        ("state", "ended; only its journal events are left")
    ]


def _payload(client: "ClientFile", message_id: MessageId) -> bytes | None:
    entry = client.outbox.load(message_id)
    if entry is not None:
        return entry.payload
    letter = client.outbox.dead_letters.load(message_id)
    return None if letter is None else client.outbox.dead_letters.payload(letter)


def _require_in_flight(client: "ClientFile", message_id: MessageId) -> None:
    if client.reading.one_waiting(message_id) is None:
        raise RestanteError(f"it is no longer in flight: its state is {client.where(message_id)}", code=Code.NOT_FOUND)


def _cancel(client: "ClientFile", message_id: MessageId) -> None:
    from restante.core.outbox_events import Cancelled

    _require_in_flight(client, message_id)
    client.outbox.apply(message_id, Cancelled(), now_ms=client.now_ms)
