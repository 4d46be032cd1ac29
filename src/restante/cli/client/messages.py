"""`restante send`, `restante inbox` and `restante history`: messages to and from contacts, encrypted end to end."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.home import (
    HomeOption,
    PassphraseOption,
    is_run_elsewhere,
    opened_client,
    places_not_reached,
)
from restante.cli.client.options import JsonOption
from restante.cli.error_advice import EXIT_FAILURE
from restante.cli.terminal import HINT, console, print_json, warn
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import MessageId, show_message_id
from restante.model.kinds import Kind
from restante.model.limits import MAX_SEALED_BYTES

if TYPE_CHECKING:
    from restante.cli.client.message_exchange import SendResult

MOST_MESSAGES: Final = 1_000_000
SEND_RESULTS: Final = {
    "sent": "is stored for the recipient",
    "delivered": "was received",
    "pending": "is in the outbox and not sent yet",
    "sending": "is being sent",
    "dropped": "was not sent: this kind of message needs a live path, and there is none",
    "dead": "could not be delivered and is a dead letter: see 'restante dlq'",
    "expired": "expired before it could be sent: see 'restante dlq'",
    "evicted": "was removed from the outbox before it was sent",
}
ACCEPTED_STATES: Final = frozenset({"pending", "sending", "sent", "delivered"})
IS_RUN_ELSEWHERE: Final = "; 'restante run' sends it when one of its places answers"
WORTH_SAYING_MS: Final = 10_000  # a shorter wait is over when the text is read
IS_NOT_RUN: Final = "; it leaves with the next 'restante run', 'send' or 'inbox'"


def send(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="TO", help="A contact's name or address.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text; - reads it from standard input.")],
    *,
    home: HomeOption = None,
    kind: Annotated[Kind, typer.Option(help="The kind of message.")] = Kind.TEXT,
    ttl_s: Annotated[int | None, typer.Option("--ttl-s", help="TTL in seconds.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the recipient has received it.")] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout-s", min=0, max=86_400, help="How long to wait: 10 until it is stored, 60 with --wait by default."
        ),
    ] = None,
    add_as: Annotated[
        str | None,
        typer.Option("--add", metavar="NAME", help="TO is an address: add it as a contact first, from the mesh."),
    ] = None,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a message to a contact. It is stored in the outbox first: if no place of the contact can be reached now, it
    is sent later.

    A text may have up to 251,314 bytes. Exit status 1 if the message was not accepted or could not be delivered, with
    --wait if it was not delivered.
    """
    body = _standard_input() if text == "-" else text.encode("utf-8", "surrogateescape")
    if kind is Kind.CONTROL:
        raise RestanteError("kind control is for Restante itself; choose another kind", code=Code.MALFORMED)
    import asyncio

    from restante.cli.client.message_exchange import send_one
    from restante.model.states import State

    within_s = timeout_s if timeout_s is not None else (60.0 if wait else 10.0)
    client = opened_client(ctx, home, passphrase_file)
    is_running = is_run_elsewhere(home)
    accepted: list[MessageId] = []
    try:
        result = asyncio.run(
            send_one(
                client,
                to,
                body,
                kind=kind,
                ttl_s=ttl_s,
                timeout_s=within_s,
                until_delivered=wait,
                is_run_elsewhere=is_running,
                on_accepted=accepted.append,
                add_as=add_as,
            )
        )
    except KeyboardInterrupt:
        for one in accepted:
            warn(f"{show_message_id(one)} is in the outbox and is sent", as_json=as_json)
        raise
    _print_result(result, is_running=is_running, as_json=as_json)
    state = result.state
    if wait and state == State.SENT and not as_json:
        console().print(f"The recipient did not fetch it within {within_s:g} s; nothing more has to be done.")
    if state == State.PENDING and result.last_error is Code.AUTHENTICATION_FAILED:
        raise wrong_relay_key()
    if state not in ACCEPTED_STATES or (wait and state != State.DELIVERED):
        raise typer.Exit(EXIT_FAILURE)


def _print_result(result: "SendResult", *, is_running: bool, as_json: bool) -> None:
    from restante.model.states import State
    from restante.views.formatting import moment
    from restante.views.message_timeline import reason_text

    message_id, state, at_ms = show_message_id(result.message_id), result.state, result.next_attempt_at_ms
    if as_json:
        print_json(
            {
                "message_id": message_id,
                "state": state,
                "is_delivered": state == State.DELIVERED,
                "last_error": result.last_error,
                "next_attempt_at_ms": at_ms,
                "dropped": result.dropped,
            }
        )
        return
    text = f"{message_id} {SEND_RESULTS.get(state, state)}"
    if state in (State.PENDING, State.SENDING):
        why = reason_text(result.last_error)
        text += f" ({why})" if why else ""
        text += IS_RUN_ELSEWHERE if is_running else IS_NOT_RUN
        if at_ms is not None and at_ms - result.now_ms > WORTH_SAYING_MS:
            text += f", not before {moment(at_ms)} UTC"
    console().print(text, soft_wrap=True)


def _standard_input() -> bytes:
    body = sys.stdin.buffer.read(MAX_SEALED_BYTES + 1)
    if len(body) > MAX_SEALED_BYTES:
        raise RestanteError(
            "standard input has more bytes than the 251,314 that a text may have", code=Code.MESSAGE_TOO_LARGE
        )
    return body


def inbox(
    ctx: typer.Context,
    *,
    home: HomeOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Stay connected and show messages as they arrive.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="First show again what was shown before, then what is new.")
    ] = False,
    idle_timeout_ms: Annotated[
        int,
        typer.Option("--idle-timeout-ms", min=100, max=60_000, help="Stop after this long without a new message."),
    ] = 1_000,
    send_read_acks: Annotated[
        bool, typer.Option("--send-read-acks", help="Send a READ ack for each message shown.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch messages from your places (mesh or relays) and show those that were not shown before, oldest first.

    Also says which messages wait for an earlier one. With --json each message is one line.

    Exit status 1 if not all inboxes could be read, by this command or by the 'restante run' that it uses.
    """
    import asyncio

    from restante.cli.client.message_exchange import show_new
    from restante.cli.client.running_client import inboxes_not_read, running_client
    from restante.client.places.read_results import SomeInboxesUnread

    client = opened_client(ctx, home, passphrase_file, only_receives=True)
    client.sends_read_acks = send_read_acks
    idle_timeout_s = idle_timeout_ms / 1_000
    result = asyncio.run(
        show_new(
            client,
            again=everything,
            follow=follow,
            idle_timeout_s=idle_timeout_s,
            as_json=as_json,
            running=running_client(home),
        )
    )
    if result.running is not None and not result.running.is_read:
        raise inboxes_not_read(result.running)
    if result.failure is not None and result.failure.code is Code.AUTHENTICATION_FAILED:
        raise wrong_relay_key()
    if not result.was_connected:
        problem = places_not_reached(result.failure)
        is_part_read = result.failure is None or isinstance(result.failure, SomeInboxesUnread)
        if result.shown and not is_part_read:
            problem.add_note(f"{result.shown:,} messages that were already on this machine were shown")
        raise problem
    if not result.shown and not result.held_back and not as_json:
        console().print("No new messages.")
    if result.requests and not as_json:
        console().print(f"Senders who are no contacts: {result.requests:,}. 'restante requests' lists them.")


def history(
    ctx: typer.Context,
    contact: Annotated[str, typer.Argument(metavar="NAME", help="A contact's name or address.")],
    *,
    home: HomeOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_MESSAGES, help="Show at most this many, the newest.")] = 100,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show messages from a contact again that 'restante inbox' showed before, oldest first.

    Expired messages are deleted and not shown. With --json each message is one line.
    """
    import asyncio

    from restante.cli.client.message_exchange import show_again

    client = opened_client(ctx, home, passphrase_file)
    shown = asyncio.run(show_again(client, contact, limit=limit, as_json=as_json))
    if not shown and not as_json:
        console().print(f"No message from {contact} was shown before.", markup=False)


def wrong_relay_key() -> RestanteError:
    """Return the error for a relay that proves another key than the pinned one."""
    problem = RestanteError("another node answers at the relay's place", code=Code.AUTHENTICATION_FAILED)
    problem.add_note(f"{HINT}Ask the relay's operator for its key. 'restante security' lists the event.")
    return problem
