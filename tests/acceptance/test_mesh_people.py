"""The README's commands let two people read each other's first message over a local mesh."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from support.relay.node_processes import COMMAND, clean_environ, free_port, spawned
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S

README = Path(__file__).parents[2] / "README.md"


def commands() -> list[list[str]]:
    """The commands of the README's section on a local mesh."""
    section = README.read_text("utf-8").split("## Two people on a local mesh", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("$ restante ")]
    return [line.removeprefix("$ restante ").split() for line in lines]


@clause("7.6")
def test_the_commands_of_the_readme_let_two_people_read_each_others_first_message(tmp_path: Path) -> None:
    up, new_alice, new_bob, *rest = commands()
    assert len(rest) + 3 <= 7
    ports = ["--port", str(free_port()), "--status-port", str(free_port())]
    network = subprocess.Popen(
        [COMMAND, *up, *ports], cwd=tmp_path, env=clean_environ(COLUMNS="1000"), stdout=subprocess.PIPE, text=True
    )
    try:
        assert network.stdout is not None
        mesh = next(found.group(1) for line in network.stdout if (found := re.search(r"--mesh (\S+)", line)))
        known = {"NODES": mesh}
        shown = ""
        for command in (new_alice, new_bob, *rest):
            words = [known.get(word, word) for word in command]
            shown = spawned(*words, cwd=tmp_path).stdout
            if command[:2] == ["id", "new"]:
                known[f"{command[2].upper()}_ADDRESS"] = re.findall(r"rst1\w+", shown)[0]
            if command[0] == "send" and command[1] == "BOB_ADDRESS":
                assert "restante requests" in spawned("inbox", "--home", "bob", cwd=tmp_path).stdout
                assert known["ALICE_ADDRESS"] in spawned("requests", "--home", "bob", cwd=tmp_path).stdout
            if command[0] == "requests":
                assert "alice" in shown
                assert "hello" in shown
        assert "bob" in shown
        assert "hi" in shown
        assert_nodes_are_listed(tmp_path, known["BOB_ADDRESS"])
    finally:
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=LIMIT_S)


def assert_nodes_are_listed(cwd: Path, address: str) -> None:
    """`mesh peers`, `lookup` and `where` list nodes of the network; five of them should store the mail."""

    def listed(*command: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(spawned("mesh", *command, "--home", "bob", "--json", cwd=cwd).stdout)
        return rows

    peers = listed("peers")
    assert len(peers) == 8
    assert all(each["roles"] == ["mailbox", "storage", "hop"] for each in peers)
    assert {each["node"] for each in listed("lookup", peers[0]["node"])} <= {each["node"] for each in peers}
    holders = listed("where", address)
    assert [each["should_store"] for each in holders].count(True) == 5
    assert all(each["answers"] and each["messages"] is not None for each in holders)
    assert peers[0]["node"][:12] in spawned("mesh", "peers", "--home", "bob", cwd=cwd).stdout
    shown = spawned("mesh", "where", address, "--home", "bob", cwd=cwd, COLUMNS="80").stdout
    assert all(f"{each['node'][:12]}   {each['place'].partition('@')[2]}" in shown for each in holders)
    assert "messages" in shown
