"""Open a client's directory for a command, with its passphrase."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from restante.cli.client.options import HOME_VARIABLE
from restante.cli.terminal import HINT, interruptible, warn
from restante.model.error_codes import Code
from restante.model.errors import ConfigurationInvalid, Malformed, RestanteError

if TYPE_CHECKING:
    from restante.client.client import Client
    from restante.client.contacts import ContactBook
    from restante.client.home import ClientDirectory
    from restante.ports.relay_connection import AttemptFailed

PASSPHRASE_VARIABLE: Final = "RESTANTE_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable
UNREACHED_MESH: Final = frozenset({Code.NETWORK_UNREACHABLE, Code.CIRCUIT_BUILD_FAILED, Code.DHT_LOOKUP_FAILED})
MAX_PASSPHRASE_BYTES: Final = 4_096
INTERACTIVE_RECEIVE_DELAY_S: Final = 2.0  # SPEC 6.5: commands that wait for an answer connect within 0-2 s
EMPTY_DIRECTORY: Final = "Name a new directory, or an empty one that you may write to."
NEW_PREKEYS: Final = (
    "Nothing was changed. Ask the contact for a new file ('restante id export') and add it with "
    "'restante contact add', or correct this machine's clock."
)

HomeOption = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", envvar=HOME_VARIABLE, help="The client's directory.")
]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        envvar=PASSPHRASE_VARIABLE,
        help="Read the passphrase from the first line of this file instead of asking for it.",
    ),
]


def find_client_home(home: Path | None) -> "ClientDirectory":
    """Return the client's directory. Raise if it is not one."""
    from restante.client.home import ClientDirectory

    if home is None:
        raise ConfigurationInvalid(f"no client given: add --home DIR, or set {HOME_VARIABLE}")
    found = ClientDirectory(home)
    with hinting("Create a client with 'restante id new DIR', or give another directory with --home."):
        found.check()
    return found


def read_passphrase(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_PASSPHRASE_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise RestanteError(f"{file} cannot be read: {error.strerror}", code=Code.NOT_FOUND) from error
    except UnicodeDecodeError:
        raise Malformed(f"{file} is not UTF-8 text") from None
    passphrase = text.split("\n", 1)[0].rstrip("\r")
    if not passphrase or len(raw) > MAX_PASSPHRASE_BYTES:
        raise Malformed(f"the first line of {file} must be a passphrase of 1 to {MAX_PASSPHRASE_BYTES} bytes")
    return passphrase


def passphrase_for(directory: "ClientDirectory", file: Path | None) -> str | None:
    """Return the passphrase, or None if the identity has none."""
    if not directory.is_under_passphrase():
        return None
    if file is not None:
        return read_passphrase(file)
    if not sys.stdin.isatty():
        raise ConfigurationInvalid(
            f"the identity has a passphrase and there is no terminal to ask for it: add --passphrase-file FILE, or set "
            f"{PASSPHRASE_VARIABLE}"
        )
    with interruptible():
        return str(typer.prompt("Passphrase", hide_input=True))


def receive_delay_s(*, only_receives: bool, is_terminal: bool) -> float:
    """Return the longest random delay before the receiving connection (SPEC 6.5).

    A person who only fetches mail at a terminal does not wait: no put connection was opened that it could be linked to.
    """
    return 0.0 if only_receives and is_terminal else INTERACTIVE_RECEIVE_DELAY_S


def opened_client(
    ctx: typer.Context, home: Path | None, passphrase_file: Path | None, *, only_receives: bool = False
) -> "Client":
    """Open the client of a command. The caller closes it. Contact files that cannot be used are named in warnings."""
    from restante.cli.shared_options import inputs_of
    from restante.client.client import Client
    from restante.runtime.testing_clock import moved_clock

    directory = find_client_home(home)
    loaded = inputs_of(ctx).load(home=directory.path)
    passphrase = passphrase_for(directory, passphrase_file)
    with explain_wrong_passphrase(passphrase):
        client = Client.open(
            directory.path,
            passphrase,
            settings=loaded.settings,
            clock=moved_clock(loaded.clock_offset_ms),
            ship_to=loaded.ship_to,
            receive_delay_s=receive_delay_s(only_receives=only_receives, is_terminal=sys.stdout.isatty()),
        )
    warn_of_unusable_contacts(client.contacts, as_json=bool(ctx.params.get("as_json")))
    return client


def places_not_reached(failure: "AttemptFailed | None") -> RestanteError:
    """Return the error for a client whose inboxes could not all be read. Without a failure some did not answer yet."""
    from restante.client.places.read_results import SomeInboxesUnread

    code, text = Code.NETWORK_UNREACHABLE, "not all of your inboxes could be read in time"
    if failure is not None:
        is_part_read = isinstance(failure, SomeInboxesUnread)
        what = "not all of your inboxes could be read" if is_part_read else "none of your places could be reached"
        text = f"{what}: {failure}"
        if failure.code in UNREACHED_MESH:
            code = failure.code
    problem = RestanteError(text, code=code)
    problem.add_note(f"{HINT}Check the network, and 'restante places show', then run the command again.")
    return problem


def is_run_elsewhere(home: Path | None) -> bool:
    """Return whether `restante run` keeps this client connected."""
    from restante.runtime.directory_lock import note_of_holder

    return note_of_holder(find_client_home(home).run_lock) is not None


def warn_of_unusable_contacts(contacts: "ContactBook", *, as_json: bool) -> None:
    for file, why in contacts.problems.items():
        warn(f"the contact file {file} is skipped: {why}", as_json=as_json)


@contextlib.contextmanager
def hinting(hint: str, *, code: Code | None = None) -> Iterator[None]:
    """Replace the general advice for errors raised in this block, or for those with this code."""
    try:
        yield
    except RestanteError as problem:
        if code in (None, problem.code):
            problem.add_note(f"{HINT}{hint}")
        raise


def hinting_empty_directory() -> contextlib.AbstractContextManager[None]:
    """Say what a new directory must be: its error names an existing one, and neither a lock nor a full disk."""
    return hinting(EMPTY_DIRECTORY, code=Code.STORE_UNUSABLE)


def hinting_new_prekeys() -> contextlib.AbstractContextManager[None]:
    """Say where newer prekeys of a contact come from. Nothing is retried: no message was accepted."""
    return hinting(NEW_PREKEYS, code=Code.RECIPIENT_NOT_FOUND)


@contextlib.contextmanager
def hinting_unreached_mesh() -> Iterator[None]:
    """Say what to do if the mesh is not reached where no message waits for it: nothing is tried again by itself."""
    try:
        yield
    except RestanteError as problem:
        is_hinted = any(str(note).startswith(HINT) for note in getattr(problem, "__notes__", ()))
        if problem.code in UNREACHED_MESH and not is_hinted:
            problem.add_note(f"{HINT}Check the network, and whether nodes of the mesh run; then run the command again.")
        raise


@contextlib.contextmanager
def explain_wrong_passphrase(passphrase: str | None) -> Iterator[None]:
    """Report a failed decryption as a wrong passphrase. A damaged file looks the same, but is less likely."""
    try:
        yield
    except RestanteError as problem:
        if passphrase is None or problem.code is not Code.AUTHENTICATION_FAILED:
            raise
        wrong = RestanteError("the passphrase is wrong, or the identity file is damaged", code=problem.code)
        wrong.add_note(f"{HINT}Try again. If the passphrase is right, restore the file 'identity' from a backup.")
        raise wrong from None
