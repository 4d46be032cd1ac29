"""`restante places` and `restante contact remove` against running relays. Each test has people of its own."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.relay.node_processes import Done, NodeHome, NodeProcess, restante, running_node
from support.spec.clauses import clause
from support.system.wait_until import looks


@pytest.fixture(scope="module")
def relays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    base = tmp_path_factory.mktemp("relays")
    with running_node(NodeHome.made(base / "one")) as one, running_node(NodeHome.made(base / "two")) as two:
        yield [one, two]


@pytest.fixture(scope="module")
def bob(relays: list[NodeProcess], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bob at the first relay, for tests that leave him as he is."""
    home = tmp_path_factory.mktemp("people")
    created(home, "bob", relays[0])
    return home


def created(home: Path, who: str, relay: NodeProcess) -> None:
    restante("id", "new", str(home / who), "--relay", str(relay.relay), "--no-passphrase")
    restante("id", "export", "--home", str(home / who), "-o", str(home / f"{who}.json"))


def acquainted(home: Path, relay: NodeProcess, *friends: str) -> None:
    """Create Bob and friends at a relay; he and each of them are contacts, have written, and his "hello" waits."""
    for name in ("bob", *friends):
        created(home, name, relay)
    for name in friends:
        by(home, "bob", "contact", "add", name, str(home / f"{name}.json"))
        by(home, name, "contact", "add", "bob", str(home / "bob.json"))
        by(home, name, "send", "bob", f"I am {name}")
        assert fetched(home, "bob") == [f"I am {name}"]
        by(home, "bob", "send", name, "hello")


def by(home: Path, who: str, *args: str, status: int = 0) -> Done:
    return restante(*args, status=status, RESTANTE_HOME=str(home / who))


def fetched(home: Path, who: str) -> list[str]:
    """Return the next texts in somebody's inbox."""
    for _ in looks():
        shown = by(home, who, "inbox", "--json", "--idle-timeout-ms", "500").stdout
        if shown:
            return [json.loads(line)["text"] for line in shown.splitlines()]
    raise AssertionError


def places_of(home: Path, who: str, contact: str) -> list[str]:
    [found] = [
        each for each in json.loads(by(home, who, "contact", "list", "--json").stdout) if each["name"] == contact
    ]
    return list(found["places"])


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        (("set",), "Missing argument"),
        (("set", "nowhere"), "KEY@HOST:PORT"),
        (("set", "mesh"), "knows no mesh"),
        (("set", "RELAY", "RELAY"), "named twice"),
    ],
)
def test_bad_places_are_refused_and_nothing_changes(
    bob: Path, relays: list[NodeProcess], args: tuple[str, ...], wrong: str
) -> None:
    relay = str(relays[0].relay)
    done = by(bob, "bob", "places", *(each.replace("RELAY", relay) for each in args), status=2)
    assert wrong in " ".join(done.stderr.split())
    assert json.loads(by(bob, "bob", "places", "show", "--json").stdout) == {"places": [relay], "former": []}


@clause("3.14", "8.8")
def test_somebody_moves_to_another_relay_and_contacts_follow(tmp_path: Path, relays: list[NodeProcess]) -> None:
    acquainted(tmp_path, relays[0], "alice")
    old, new = (str(relay.relay) for relay in relays)
    assert json.loads(by(tmp_path, "bob", "places", "show", "--json").stdout) == {"places": [old], "former": []}
    moved = json.loads(by(tmp_path, "bob", "places", "set", new, old, "--json").stdout)
    assert moved == {"places": [new, old], "former": []}
    moved = json.loads(by(tmp_path, "bob", "places", "set", new, "--json").stdout)
    assert (moved["places"], [each["place"] for each in moved["former"]]) == ([new], [old])
    shown = by(tmp_path, "bob", "places", "show").stdout
    assert f"{new}   " in shown
    assert f"{old}   " in shown
    assert "in 29 d" in shown
    by(tmp_path, "alice", "send", "bob", "to the place I know")
    assert fetched(tmp_path, "bob") == ["to the place I know"]
    by(tmp_path, "bob", "send", "alice", "I have moved")
    assert fetched(tmp_path, "alice") == ["hello", "I have moved"]
    assert places_of(tmp_path, "alice", "bob") == [new]
    by(tmp_path, "alice", "send", "bob", "to the new place")
    assert fetched(tmp_path, "bob") == ["to the new place"]


@clause("8.8")
def test_a_removed_contact_is_gone_and_the_others_get_a_new_secret(tmp_path: Path, relays: list[NodeProcess]) -> None:
    acquainted(tmp_path, relays[0], "alice", "carol")
    done = json.loads(by(tmp_path, "bob", "contact", "remove", "carol", "--json").stdout)
    assert done == {"removed": ["carol"], "blocked": False, "has_new_secret": True, "undelivered": 1}
    assert [each["name"] for each in json.loads(by(tmp_path, "bob", "contact", "list", "--json").stdout)] == ["alice"]
    by(tmp_path, "bob", "send", "alice", "news")
    assert fetched(tmp_path, "alice") == ["hello", "news"]
    by(tmp_path, "alice", "send", "bob", "I have it")
    assert fetched(tmp_path, "bob") == ["I have it"]
    again = by(tmp_path, "bob", "contact", "remove", "carol", status=1)
    assert "restante contact list" in again.stderr


def test_a_contact_is_blocked_by_removing_it(tmp_path: Path, relays: list[NodeProcess]) -> None:
    acquainted(tmp_path, relays[0], "alice")
    alice = json.loads(by(tmp_path, "alice", "id", "show", "--json").stdout)["address"]
    refused = by(tmp_path, "bob", "requests", "block", alice, status=1)
    assert "contact remove alice --block" in " ".join(refused.stderr.split())
    assert by(tmp_path, "bob", "contact", "remove", "alice", "--block").stdout.startswith("Removed alice and blocked.")
    by(tmp_path, "alice", "send", "bob", "hello?")
    assert by(tmp_path, "bob", "requests").stdout == "There are no requests.\n"
