"""Inspect a node from another process: over its status listener, or from its files if it is stopped."""

import http.client
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from restante.cli.terminal import HINT
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable
from restante.model.places import RelayPlace
from restante.node.config import NodeConfig, load_node_config
from restante.runtime.directory_lock import hold, note_of_holder
from restante.runtime.endpoints import Endpoint, parse_endpoint
from restante.runtime.node_home import NodeDirectory
from restante.runtime.settings_loader import PREFIX
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.integrity import Check
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.file.node_integrity import check_node_file
from restante.runtime.sqlite.mailbox.queries import read_holdings
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy

ANSWER_S: Final = 10.0
START_S: Final = 10.0  # a node that is starting has not written its status address yet
REAP_S: Final = 120.0
ASK_AGAIN_S: Final = 0.05


def load_config(there: NodeDirectory, overrides: Mapping[str, str]) -> NodeConfig:
    environ = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    return load_node_config(there.config, environ=environ, overrides=overrides)


def status_data(there: NodeDirectory, overrides: Mapping[str, str]) -> dict[str, Any]:
    config = load_config(there, overrides)
    note = _running(there)
    listen = config.listen if note is None else parse_endpoint(note["listen"])
    data: dict[str, Any] = {
        "directory": str(there.path),
        "relay_address": str(RelayPlace(node_key=there.identity().node_key, host=listen.host, port=listen.port)),
        "running": note is not None,
        "now_ms": SystemClock().now_ms(),
        "store": _holdings(there),
        "limits": asdict(config.settings.relay) | asdict(config.settings.mailbox),
    }
    return data if note is None else data | {"status_address": note["status"]} | ask(parse_endpoint(note["status"]))


def collect_garbage(there: NodeDirectory) -> tuple[int, bool]:
    """Delete expired blobs. Return how many, and whether a running node did it."""
    note = _running(there)
    if note is not None:
        return _request_reap(note), True
    if not there.database.exists():
        return 0, False
    with hold(there.lock, what=f"the node in {there.path}"):
        database = Database(there.database, schema="node")
        try:
            journal = Journal(database, SystemEntropy())
            store = SqliteMailbox(database, journal, tag_secret=there.identity().tag_secret)
            try:
                return store.reap(now_ms=SystemClock().now_ms()), False
            finally:
                store.close()
        finally:
            database.close()


def check_store(there: NodeDirectory) -> list[Check]:
    """Check the node's file; a node that has not run yet has none, and nothing to find."""
    if not there.database.exists():
        return []
    database = Database(there.database, schema="node", read_only=True)
    try:
        return check_node_file(database)
    finally:
        database.close()


def ask(place: Endpoint) -> dict[str, Any]:
    """Return the status that the node at `place` reports."""
    connection = http.client.HTTPConnection(place.host, place.port, timeout=ANSWER_S)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        said = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _no_answer() from error
    finally:
        connection.close()
    if answer.status != http.client.OK or not isinstance(said, dict):
        raise _no_answer()
    return said


def _running(there: NodeDirectory) -> dict[str, Any] | None:
    """Return the note of a running node, or None. Wait for a node that is starting."""
    until = time.monotonic() + START_S
    while (note := note_of_holder(there.lock)) is not None:
        if {"pid", "listen", "status"} <= note.keys():
            return note
        if time.monotonic() > until:
            raise StoreUnusable("another process uses the directory, and it is not a running node; try again later")
        time.sleep(ASK_AGAIN_S)
    return None


def _holdings(there: NodeDirectory) -> dict[str, Any] | None:
    if not there.database.exists():
        return None
    database = Database(there.database, schema="node", read_only=True)
    try:
        shipped = Journal(database, SystemEntropy()).shipped_through()
        held = read_holdings(database, shipped_through=shipped, now_ms=SystemClock().now_ms())
    finally:
        database.close()
    files = (path.stat().st_size for path in (there.database, there.wal) if path.exists())
    return asdict(held) | {"file_bytes": sum(files)}


def _request_reap(note: Mapping[str, Any]) -> int:
    """Send SIGUSR1 and wait until the status shows the reap. Only the node's user can send the signal."""
    place = parse_endpoint(note["status"])
    before = ask(place)["last_reap"]
    try:
        os.kill(note["pid"], signal.SIGUSR1)
    except OSError as error:
        raise StoreUnusable(
            f"the running node cannot be signalled: {error.strerror}; run this command as its user"
        ) from error
    until = time.monotonic() + REAP_S
    while time.monotonic() < until:
        now = ask(place)["last_reap"]
        if now["failed_times"] > before["failed_times"]:
            raise StoreUnusable("the running node could not write to its store; see its log")
        if now["times"] > before["times"]:
            reaped: int = now["blobs"]
            return reaped
        time.sleep(ASK_AGAIN_S)
    raise _no_answer()


def _no_answer() -> RestanteError:
    problem = RestanteError(
        "the node is running, but its status listener does not answer", code=Code.NETWORK_UNREACHABLE
    )
    problem.add_note(f"{HINT}See its log. A node that hangs may be killed: acknowledged messages are on disk.")
    return problem
