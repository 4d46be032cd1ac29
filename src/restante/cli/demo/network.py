"""The demo's mesh: eight node processes as `restante up` makes them, whose journals go to the lake."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.cli.demo.node_process import COMMAND, HIDES_MAIL
from restante.cli.node.local_network import (
    LocalNode,
    check_addresses,
    make_nodes,
    start,
    stop,
    wait_until_answering,
    wait_until_joined,
)
from restante.model.ids import NodeId
from restante.wire.inbox_keys import node_id_of

NODES: Final = 8


@dataclass(frozen=True, slots=True)
class DemoNetwork:
    nodes: list[LocalNode]

    @property
    def relay(self) -> LocalNode:
        """The node that is also a named relay, for the two people who use one."""
        return self.nodes[-1]

    def node(self, node_id: NodeId) -> LocalNode:
        return next(each for each in self.nodes if node_id_of(each.place.node_key) == node_id)

    def start(self, node: LocalNode) -> None:
        start(node, COMMAND, stdin=subprocess.PIPE)

    def restart(self, node: LocalNode) -> None:
        """Start a killed node on its own disk, and return when it answers."""
        self.start(node)
        wait_until_answering([node])

    def kill(self, node: LocalNode) -> None:
        """End the process as `kill -9` does."""
        if node.process is not None:
            node.process.kill()
            node.process.wait()

    @contextlib.contextmanager
    def hiding(self, node: LocalNode) -> Iterator[None]:
        """Let the node list no mail while the block runs."""
        switch = node.directory.path / HIDES_MAIL
        switch.touch()
        try:
            yield
        finally:
            switch.unlink()

    def stop(self) -> None:
        """End all nodes; each ships the rest of its journal first."""
        stop(self.nodes)
        for node in self.nodes:
            if node.process is not None and node.process.stdin is not None:
                node.process.stdin.close()


@contextlib.contextmanager
def running_network(base: Path, segments: Path) -> Iterator[DemoNetwork]:
    """Run the nodes, which know each other when the block begins, and end them with it."""
    port, status_port = _free_ports()
    network = DemoNetwork(make_nodes(base, NODES, port=port, status_port=status_port))
    check_addresses(network.nodes)
    for node in network.nodes:
        text = node.directory.config.read_text("utf-8")
        shipped = f"ship_to = {json.dumps(str(segments))}"
        node.directory.config.write_text(text.replace('# ship_to = "/srv/restante-segments"', shipped), "utf-8")
    try:
        for node in network.nodes:
            network.start(node)
        wait_until_joined(network.nodes)
        yield network
    finally:
        network.stop()


def _free_ports() -> list[int]:
    """Return two ports that are free at the first node's address, and most likely at the others'."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (one, other)]
