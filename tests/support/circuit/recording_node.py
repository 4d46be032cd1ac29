"""A node process that writes down every frame it receives, and over which connection: for tests of what a hop sees.

Run as `python -m support.circuit.recording_node DIR`. The product has no such switch.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from restante.cli.node.local_network import LocalNode, stop, wait_until_answering
from restante.node.client_connection import ClientConnection
from restante.node.config import load_node_config
from restante.node.daemon import run_node
from restante.runtime.node_home import NodeDirectory
from restante.runtime.transport.circuit_connection import CircuitConnection
from restante.wire.frames.codec import RawFrame
from support.circuit.people import known_nodes, made_nodes
from support.system.wait_until import until

RECORD = "recorded"


class Seen(NamedTuple):
    """One frame. `port` is where the peer's end of the TCP connection is, `is_next` whether this node dialled."""

    port: int
    is_node: bool
    is_next: bool
    type: int
    body: bytes


def main() -> None:
    directory = NodeDirectory(Path(sys.argv[1]))
    record = (directory.path / RECORD).open("ab", buffering=0)

    def write(connection: Any, frames: list[RawFrame], *, is_next: bool) -> None:
        is_node = is_next or connection.node_key is not None
        port = 0 if is_next else connection.remote[1]
        for frame in frames:
            record.write(pickle.dumps((port, is_node, is_next, frame.type, bytes(frame.body))))

    def recorded(kind: type, *, is_next: bool) -> None:
        handle = kind.on_frames  # type: ignore[attr-defined]  # both kinds of connection have it

        def on_frames(self: Any, frames: list[RawFrame], *, partial_bytes: int) -> None:
            handle(self, frames, partial_bytes=partial_bytes)
            write(self, frames, is_next=is_next)  # afterwards: a node proves its key in the same batch

        kind.on_frames = on_frames  # type: ignore[attr-defined]

    recorded(ClientConnection, is_next=False)
    recorded(CircuitConnection, is_next=True)
    run_node(directory, load_node_config(directory.config, environ=os.environ, overrides={}))


def seen_by(node: LocalNode) -> list[Seen]:
    """Return what a recording node has seen until now."""
    found = []
    with (node.directory.path / RECORD).open("rb") as file:
        while True:
            try:
                found.append(Seen(*pickle.load(file)))  # noqa: S301 - written by our own process
            except (EOFError, pickle.UnpicklingError):
                return found


def start_recording(node: LocalNode) -> None:
    with (node.directory.path / "log").open("ab") as log:
        node.process = subprocess.Popen(
            [sys.executable, "-m", "support.circuit.recording_node", str(node.directory.path)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@contextmanager
def recording_nodes(base: Path, count: int) -> Iterator[list[LocalNode]]:
    """As `support.circuit.people.node_processes`, with nodes that record."""
    made = made_nodes(base, count)
    try:
        for node in made:
            start_recording(node)
        wait_until_answering(made)
        until(lambda: all(known_nodes(each) == count for each in made))
        yield made
    finally:
        stop(made)


if __name__ == "__main__":
    main()
