"""A mesh of node processes on this machine: each its own family and /24, at 127.0.1.1, 127.0.2.1, …

Decides how the processes are made, watched and ended. What is shown is in `up`.
"""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from restante.cli.node.config_template import node_toml
from restante.cli.node.inspection import ask
from restante.model.errors import EnvironmentUnsuitable, RestanteError
from restante.model.places import RelayPlace
from restante.runtime.endpoints import Endpoint
from restante.runtime.node_home import NodeDirectory
from restante.runtime.system import SystemEntropy

BOOTSTRAP_NODES: Final = 3
STOP_S: Final = 10.0
START_S: Final = 60.0
LOOK_S: Final = 0.1


@dataclass(slots=True)
class LocalNode:
    directory: NodeDirectory
    place: RelayPlace
    status: Endpoint
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def look(self) -> dict[str, Any] | None:
        """Return what the node says of itself; None if it does not answer."""
        try:
            return ask(self.status) if self.is_running else None
        except (RestanteError, OSError, json.JSONDecodeError, http.client.HTTPException):
            return None


def make_nodes(base: Path, count: int, *, port: int, status_port: int) -> list[LocalNode]:
    """Create the directories of the nodes. All join by the first three."""
    nodes = [_make(base / f"node-{number}", number, port, status_port) for number in range(1, count + 1)]
    bootstrap = json.dumps([str(each.place) for each in nodes[:BOOTSTRAP_NODES]])
    for node in nodes:
        text = node.directory.config.read_text("utf-8")
        text = text.replace('# roles = ["mailbox"]', 'roles = ["mailbox", "storage", "hop"]')
        text = text.replace("# bootstrap = []", f"bootstrap = {bootstrap}")
        node.directory.config.write_text(text, "utf-8")
    return nodes


RESTANTE: Final = (sys.executable, "-m", "restante")


def start(node: LocalNode, command: Sequence[str] = RESTANTE, *, stdin: int = subprocess.DEVNULL) -> None:
    """Start the node's process. The demo and tests give another command, whose node misbehaves."""
    log = node.directory.path / "log"
    with log.open("ab") as written:
        node.process = subprocess.Popen(  # noqa: S603 - this program and a directory that we made
            [*command, "node", "run", str(node.directory.path)],
            stdin=stdin,
            stdout=written,
            stderr=written,
            start_new_session=True,  # Ctrl-C in the terminal goes to the command, which ends the nodes in order
        )


@contextlib.contextmanager
def running(nodes: Sequence[LocalNode]) -> Iterator[None]:
    """Run the nodes, and end them when the block ends."""
    check_addresses(nodes)
    try:
        for node in nodes:
            start(node)
        yield
    finally:
        stop(nodes)


def wait_until_answering(nodes: Sequence[LocalNode]) -> None:
    """Return when every node answers; raise if one of them ended."""
    until = time.monotonic() + START_S
    for node in nodes:
        while node.look() is None or not _accepts(node.place):
            if not node.is_running or time.monotonic() > until:
                raise EnvironmentUnsuitable(f"a node did not start; its log is {node.directory.path / 'log'}")
            time.sleep(LOOK_S)


def wait_until_joined(nodes: Sequence[LocalNode]) -> None:
    """Return when every node answers, knows all the others and has synced with them; raise if one of them ended."""
    wait_until_answering(nodes)
    until = time.monotonic() + START_S
    while not all(_has_joined(node, len(nodes)) for node in nodes):
        ended = [node for node in nodes if not node.is_running]
        if ended or time.monotonic() > until:
            shown = (ended or nodes)[0].directory.path / "log"
            raise EnvironmentUnsuitable(f"the nodes did not find each other within {START_S:.0f} s; a log is {shown}")
        time.sleep(LOOK_S)


def _has_joined(node: LocalNode, count: int) -> bool:
    status = node.look()
    stats = {} if status is None else status["mesh"]["stats"]
    return bool(stats) and stats["is_serving"] and stats["directory_nodes"] >= count


def stop(nodes: Sequence[LocalNode]) -> None:
    """End all nodes at once: no node is left to hand anything over to, which a second signal says."""
    for _ in range(2):
        for node in nodes:
            if node.process is not None and node.is_running:
                node.process.send_signal(signal.SIGTERM)
        time.sleep(LOOK_S)
    for node in nodes:
        if node.process is None:
            continue
        try:
            node.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            node.process.kill()
            node.process.wait(STOP_S)


def _make(path: Path, number: int, port: int, status_port: int) -> LocalNode:
    host = f"127.0.{number}.1"
    listen, status = Endpoint(host=host, port=port), Endpoint(host=host, port=status_port)
    directory = NodeDirectory(path)
    identity = directory.create(node_toml(listen=str(listen), status=str(status)), SystemEntropy())
    return LocalNode(directory, RelayPlace(node_key=identity.node_key, host=host, port=port), status)


def _accepts(place: RelayPlace) -> bool:
    """Return whether the node listens for clients; its status answers a little earlier."""
    try:
        socket.create_connection((place.host, place.port), timeout=1.0).close()
    except OSError:
        return False
    return True


def check_addresses(nodes: Sequence[LocalNode]) -> None:
    """Raise with advice if an address is taken or does not exist here, before any process starts."""
    for node in nodes:
        for endpoint in (Endpoint(host=node.place.host, port=node.place.port), node.status):
            with socket.socket() as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    tried.bind((endpoint.host, endpoint.port))
                except OSError as error:
                    raise EnvironmentUnsuitable(
                        f"{endpoint} cannot be listened at: {error.strerror}. Give other ports with --port and "
                        "--status-port; on macOS add the address first: sudo ifconfig lo0 alias " + endpoint.host
                    ) from error
