"""The process behind `restante run`: keeps a client connected until SIGTERM or SIGINT.

Run as `python -m restante.client.service ARGUMENTS` by `restante run`. It imports nothing of the command line.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from restante.client.client import Client
from restante.client.home import ClientDirectory
from restante.client.mesh.host import MeshHost
from restante.client.places.read_results import SomeInboxesUnread, StillReading
from restante.model.errors import RestanteError
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.directory_lock import hold
from restante.runtime.local_questions import answering
from restante.runtime.service_process import read_arguments
from restante.runtime.settings_loader import find_file, load
from restante.runtime.systemd import ServiceState, notify

EXIT_FAILURE: Final = 1
LOOK_S: Final = 1.0
LEASE_OWNER: Final = "lease_owner"


def say(text: str) -> None:
    """Write a line to standard error. Where it can't be written, the client still runs."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


async def report_connection(client: Client, report: Callable[[str], None]) -> None:
    """Report why our own places can't be reached, once for each reason, and when one is reached again."""
    last: AttemptFailed | None = None
    while True:
        failure = client.connection_failure
        if not isinstance(failure, StillReading):  # else another inbox may be read in a moment
            if failure is None and last is not None:
                report("messages are received again")
            elif failure is not None and _is_news(failure, last):
                what = "not all" if isinstance(failure, SomeInboxesUnread) else "no"
                report(f"{what} messages can be received: {failure} ({failure.code.value}); trying again")
            last = failure
        await asyncio.sleep(LOOK_S)


def _is_news(failure: AttemptFailed, last: AttemptFailed | None) -> bool:
    """Return whether the reason is another one, or more inboxes cannot be read."""
    if last is None or failure.code is not last.code:
        return True
    return isinstance(last, SomeInboxesUnread) and not isinstance(failure, SomeInboxesUnread)


async def keep_connected(client: Client) -> None:
    """Run the client until SIGTERM or SIGINT, then send what can be sent and close it."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    running = asyncio.create_task(client.run())
    asked = asyncio.create_task(stopping.wait())
    notify(ServiceState.READY)
    say("The client is running: it sends and receives until Ctrl-C or SIGTERM.")
    for file, why in client.contacts.problems.items():
        say(f"warning: the contact file {file} is skipped: {why}")
    reporting = asyncio.create_task(report_connection(client, lambda text: say(f"warning: {text}")))
    await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    reporting.cancel()
    notify(ServiceState.STOPPING)
    await client.close()
    await running


def serve(arguments: dict[str, Any], passphrase: str | None) -> None:
    """Open the client, hold its lock, and keep it connected."""
    home = ClientDirectory(Path(arguments["home"]))
    config = arguments["config"]
    file = find_file(None if config is None else Path(config), os.environ, Path())
    loaded = load(file=file, environ=os.environ, overrides=arguments["overrides"])
    with hold(home.run_lock, what=f"the client in {home.path}") as lock:

        async def run() -> None:
            client = Client.open(home.path, passphrase, settings=loaded.settings, ship_to=loaded.ship_to)
            # The lock was free, so the process that wrote this note is dead and sends no more of its leased entries.
            if isinstance(dead_owner := lock.left_note.get(LEASE_OWNER), str):
                take_back = partial(client.outbox.store.sweep, now_ms=client.now_ms(), dead_owner=dead_owner)
                await client.file.run(take_back)
            async with answering(partial(_answer, client)) as note:
                lock.write_note({"pid": os.getpid(), LEASE_OWNER: client.outbox.lease_owner, **note})
                await keep_connected(client)

        asyncio.run(run())


def _answer(client: Client) -> dict[str, Any]:
    """Return what commands ask of a running client."""
    circuits = circuit_data(client, client.running_mesh)
    return {"circuits": circuits, "reading": client.online.reading_status().to_data()}


def circuit_data(client: Client, mesh: MeshHost | None) -> dict[str, Any]:
    """Return what `restante circuits` shows."""
    status = None if mesh is None else mesh.circuit_status()
    pool = None if status is None else asdict(status)
    shown = client.parts.own_access.shown_names
    for each in () if pool is None else pool["circuits"]:
        each["use"] = shown.get(each["use"], each["use"])
    last = None if mesh is None else mesh.last_failure()
    return {
        "mode": None if mesh is None else mesh.circuit_mode.value,
        "pool": pool,
        "last_failure": None if last is None else {"age_ms": last[0], "code": last[1].code.value, "text": str(last[1])},
    }


def main() -> None:
    try:
        serve(*read_arguments(sys.argv))
    except RestanteError as problem:
        say(f"error {problem.code.value}: {problem}")
        sys.exit(EXIT_FAILURE)


if __name__ == "__main__":
    main()
