"""A mesh of real node processes for tests, which pings often."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from restante.cli.node.local_network import LocalNode, make_nodes, start, stop, wait_until_answering
from restante.model.journal import JournalKind
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.system import SystemEntropy
from support.relay.node_processes import free_port
from support.system.wait_until import until


class Processes:
    """Nodes that ping five times a second, so that a crash is repaired within a second or two."""

    def __init__(self, base: Path, count: int) -> None:
        self.nodes = make_nodes(base, count, port=free_port(), status_port=free_port())
        for node in self.nodes:
            self.configure(node, r"# ping_interval_ms = .*", "ping_interval_ms = 200")

    def configure(self, node: LocalNode, pattern: str, line: str) -> None:
        text = node.directory.config.read_text("utf-8")
        node.directory.config.write_text(re.sub(pattern, line, text, count=1), "utf-8")

    def start(self, *nodes: LocalNode) -> None:
        for node in nodes:
            start(node)
        wait_until_answering(nodes)

    def stats(self, node: LocalNode) -> dict[str, Any]:
        status = node.look()
        return {} if status is None else status["mesh"]["stats"]

    def settle(self, *nodes: LocalNode) -> None:
        """Wait until these nodes know each other and their silence counts."""
        until(
            lambda: all(
                stats.get("is_serving") and stats["reached_nodes"] >= len(nodes) - 1 for stats in map(self.stats, nodes)
            )
        )

    def kinds(self, node: LocalNode) -> set[tuple[JournalKind, str | None]]:
        database = Database(node.directory.database, schema="node", read_only=True)
        try:
            events = Journal(database, SystemEntropy()).events(after=0, limit=100_000)
            return {(each.kind, each.code) for each in events}
        finally:
            database.close()

    def is_repaired(self, node: LocalNode, messages: int) -> bool:
        return (JournalKind.STORED, "repaired") in self.kinds(node) and self.stats(node).get("copies") == messages


@contextmanager
def mesh(base: Path, count: int) -> Iterator[Processes]:
    made = Processes(base, count)
    try:
        yield made
    finally:
        stop(made.nodes)


def kill(node: LocalNode) -> None:
    assert node.process is not None
    node.process.kill()
    node.process.wait()
