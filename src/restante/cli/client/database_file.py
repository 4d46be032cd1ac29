"""Open a client's file for a command: never create it, and open it read-only unless the command changes it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw
import typer
from rich.console import Console

from restante.cli.client.options import FILE_VARIABLE, HOME_VARIABLE
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.shared_options import inputs_of
from restante.cli.terminal import console, print_json
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, RestanteError, StoreUnusable
from restante.model.ids import MessageId, show_message_id
from restante.policy.settings import Settings
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.outbox.queries import OutboxQueries
from restante.runtime.sqlite.outbox.store import SqliteOutbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.views.text_tables import table

MOST_CANDIDATES: Final = 5
DATABASES: Final = ("client.db", "node.db")  # in the directories of clients and nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """The client's file during one command, which runs in one transaction."""

    path: Path
    database: Database
    journal: Journal
    outbox: SqliteOutbox
    reading: OutboxQueries
    settings: Settings
    now_ms: int

    def resolve(self, digits: str) -> MessageId:
        """Return the message whose id begins with these digits. Raise if there is none or more than one."""
        found = self.reading.ids_starting(digits, limit=MOST_CANDIDATES + 1)
        if not found:
            raise RestanteError(
                f"no message in {self.path.name} has an id that begins with {digits}", code=Code.NOT_FOUND
            )
        if len(found) > 1:
            problem = RestanteError(
                f"{digits} begins the ids of several messages: give more of it", code=Code.MALFORMED
            )
            for message_id in found[:MOST_CANDIDATES]:
                problem.add_note(show_message_id(message_id))
            if len(found) > MOST_CANDIDATES:
                problem.add_note("and more")
            raise problem
        return found[0]

    def where(self, message_id: MessageId) -> str:
        """Return the state of a message, `gone` if nothing but its journal events is left."""
        waiting = self.reading.one_waiting(message_id)
        if waiting is not None:
            return waiting.entry.state.value
        letter = self.outbox.dead_letters.load(message_id)
        if letter is not None:
            return letter.entry.state.value
        ended = self.reading.ended(message_id)
        return "gone" if ended is None else ended.state.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of a change to one message."""

    given: str
    message_id: MessageId | None = None
    problem: RestanteError | None = None

    def as_json(self) -> dict[str, Any]:
        shown = None if self.message_id is None else show_message_id(self.message_id)
        problem = None if self.problem is None else {"code": self.problem.code.value, "text": str(self.problem)}
        return {"given": self.given, "message_id": shown, "done": problem is None, "problem": problem}


def require_file(file: Path | None) -> Path:
    """Return the path of a database file, which may be given by its directory. Raise if there is none."""
    if file is None:
        raise ConfigurationInvalid(
            f"no client given: add --home DIR or --file PATH, or set {HOME_VARIABLE} or {FILE_VARIABLE}"
        )
    if file.is_dir():
        file = next((file / name for name in DATABASES if (file / name).exists()), file)
    if not file.exists():
        raise RestanteError(f"there is no file {file}: give the path of a client's database", code=Code.NOT_FOUND)
    if not file.is_file():
        raise RestanteError(f"{file} is no client's directory and no database file", code=Code.NOT_FOUND)
    return file


@contextlib.contextmanager
def open_client_database(ctx: typer.Context, file: Path | None, *, changing: bool = False) -> Iterator[ClientFile]:
    """Open the file in one transaction. A command that fails changes nothing."""
    settings = inputs_of(ctx).load().settings
    path = require_file(file)
    with _translate_damage(path):
        # Open it read-only first, even for a change: an empty file or one of another program must stay as it is.
        database = Database(path, schema="client", read_only=True)
        if changing:
            database.close()
            database = Database(path, schema="client")
        try:
            with database.transaction():
                journal = Journal(database, SystemEntropy())
                outbox = SqliteOutbox(database, journal, settings)
                yield ClientFile(
                    path=path,
                    database=database,
                    journal=journal,
                    outbox=outbox,
                    reading=OutboxQueries(database, outbox.dead_letters, outbox.ended),
                    settings=settings,
                    now_ms=SystemClock().now_ms(),
                )
        finally:
            database.close()


def change_each(
    client: ClientFile, wanted: Sequence[str], change: Callable[[ClientFile, MessageId], None]
) -> list[ChangeResult]:
    """Change each message, or record why not. The others are still changed."""
    reports = []
    for digits in dict.fromkeys(wanted):
        message_id = None
        try:
            message_id = client.resolve(digits)
            change(client, message_id)
        except StoreUnusable:
            raise
        except RestanteError as problem:
            reports.append(ChangeResult(given=digits, message_id=message_id, problem=problem))
        else:
            reports.append(ChangeResult(given=digits, message_id=message_id))
    return reports


def print_results(reports: Sequence[ChangeResult], *, done: str, as_json: bool) -> None:
    """Print one line for each message. Exit status 1 if one was refused."""
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        _print_lines(console(), reports, done)
    if any(report.problem for report in reports):
        raise typer.Exit(EXIT_FAILURE)


def _print_lines(out: Console, reports: Sequence[ChangeResult], done: str) -> None:
    refused = sum(report.problem is not None for report in reports)
    title = f"{len(reports) - refused:,} {done}" + (f", {refused:,} refused" if refused else "")
    rows = [_line(report, done) for report in reports]
    out.print(table(title, "message", "result", rows=rows) if rows else title)


def _line(report: ChangeResult, done: str) -> tuple[str, str]:
    shown = report.given if report.message_id is None else show_message_id(report.message_id)
    problem = report.problem
    if problem is None:
        return shown, done
    candidates = "".join(f"\n{note}" for note in getattr(problem, "__notes__", ()))
    return shown, f"refused {problem.code.value}: {problem}{candidates}"


@contextlib.contextmanager
def _translate_damage(path: Path) -> Iterator[None]:
    """Turn missing tables and invalid rows into `StoreUnusable`."""
    look = "see what is wrong with 'restante outbox check'"
    try:
        yield
    except apsw.Error as error:
        raise StoreUnusable(f"{path.name} is damaged or incomplete ({error}); {look}") from error
    except (ValueError, LookupError) as error:
        if isinstance(error, ConfigurationInvalid):
            raise
        raise StoreUnusable(f"{path.name} holds a row that cannot be read ({error}); {look}") from error
