"""`restante sessions` and `restante security`: the sessions of a client and its security events. They need no key."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.home import HomeOption, PassphraseOption, find_client_home, opened_client
from restante.cli.client.options import JsonOption, LimitOption
from restante.cli.terminal import console, print_json
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.views import formatting
from restante.views.text_tables import table

if TYPE_CHECKING:
    from restante.client.client import Client
    from restante.runtime.sqlite.file.database import Database
    from restante.runtime.sqlite.session_store import SessionSummary

app = typer.Typer(help="List sessions, or replace one.", invoke_without_command=True, rich_markup_mode="rich")
SHORT: Final = 8
MEANINGS: Final = {
    "collision": "two different messages under one id",
    "wrong_node_key": "another node than the pinned one answered at a relay's place; nothing was sent to it",
    "replay": "a message whose key was already used",
    "foreign_ack": "a contact acknowledged a message that was sent to another contact; ignored",
    "unknown_sender": "claims to be from an address that is not a contact and does not prove it; rejected",
    "request_refused": "a stranger wrote more than is kept of strangers; not kept",
    "invalid_sender_tag": "bytes that only claim to be from a contact; ignored",
    "old_prekeys": "a contact sent prekeys that are older than those known; refused",
    "restored": "this client's file is an older copy; it opened new sessions with every contact",
    "recovery_limit": "the daily limit of new sessions or re-encrypted messages with a contact was reached",
    "cannot_recover": "a new session is needed, but the contact's prekeys are too old; ask it for a new contact file",
    "no_one_time_prekey": "a session was opened without a one-time prekey",
    Code.AUTHENTICATION_FAILED.value: "decryption failed: damaged, not for us, or not from the sender it names",
    Code.MALFORMED.value: "invalid format",
    Code.SESSION_INVALID.value: "a contact's message that can't be read; this client requests it again",
    Code.RECIPIENT_NOT_FOUND.value: "a new session is needed, but the contact's prekeys are too old",
}


@app.callback()
def sessions(ctx: typer.Context, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the sessions with each contact, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    from restante.runtime.sqlite.session_store import summaries
    from restante.runtime.system import SystemClock
    from restante.wire.address import show_address

    directory = find_client_home(home)
    names = {contact.address: contact.name for contact in directory.contact_book()}
    with _open_read_only(directory.database) as database:
        found = summaries(database)
    if as_json:
        print_json(
            [
                {
                    "session": one.session_id.hex()[:SHORT],
                    "contact": names.get(one.peer),
                    "address": show_address(one.peer),
                    "state": _state(one),
                    "generation": one.generation,
                    "opened_by_us": one.is_initiator,
                    "began_at_ms": one.began_at_ms,
                    "sent": one.sent,
                    "received": one.received,
                    "in_flight": one.in_flight,
                }
                for one in found
            ]
        )
        return
    out = console()
    if not found:
        out.print("There are no sessions. The first message opens one.")
        return
    now_ms = SystemClock().now_ms()
    rows = [
        (
            one.session_id.hex()[:SHORT],
            formatting.away(one.began_at_ms, now_ms),
            f"{one.sent:,}",
            f"{one.received:,}",
            f"{one.in_flight:,}",
            _state(one),
            names.get(one.peer, "?"),
        )
        for one in found
    ]
    columns = ("session", "began", "sent", "received", "in flight", "state", "with")
    out.print(table("Sessions", *columns, rows=rows, right=("began", "sent", "received", "in flight"), dense=True))


@app.command()
def reset(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or address of the contact.")],
    *,
    home: HomeOption = None,
    passphrase_file: PassphraseOption = None,
) -> None:
    """Delete the sessions with a contact and open a new one. The contact sends again what you have not received."""
    import asyncio

    asyncio.run(_reset(opened_client(ctx, home, passphrase_file), name))
    console().print(f"The sessions with {name} were deleted; a new one is opened with the next connection.")


async def _reset(client: "Client", name: str) -> None:
    try:
        await client.reset_sessions(name)
    finally:
        await client.close()


def security(home: HomeOption = None, limit: LimitOption = 50, as_json: JsonOption = False) -> None:
    """List security events, newest first: what looked like an attack or weakened the encryption. They name no peer."""
    from restante.model.journal import JournalKind
    from restante.runtime.sqlite.file.journal import Journal
    from restante.runtime.system import SystemEntropy

    with _open_read_only(find_client_home(home).database) as database:
        found = Journal(database, SystemEntropy()).newest(JournalKind.SECURITY, limit=limit)
    if as_json:
        print_json([{"at_ms": row.at_ms, "code": row.code, "size_bytes": row.size_bytes} for row in found])
        return
    out = console()
    if not found:
        out.print("There are no security events.")
        return
    rows = [(formatting.moment(row.at_ms), row.code or "", MEANINGS.get(row.code or "", "")) for row in found]
    out.print(table("Security events", "when", "code", "what", rows=rows))


def _state(one: "SessionSummary") -> str:
    if one.is_initiator and not one.is_read:
        return "not answered"
    return "in use" if one.is_current else "read only"


@contextmanager
def _open_read_only(path: Path) -> "Iterator[Database]":
    from restante.runtime.sqlite.file.database import Database

    if not path.is_file():
        raise RestanteError("this client has not sent or received anything yet", code=Code.NOT_FOUND)
    database = Database(path, schema="client", read_only=True)
    try:
        with database.transaction():
            yield database
    finally:
        database.close()
