"""A client that starts on a full disk sends what is queued, and receipts free space (SPEC 1.4, 3.11)."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.relay.node_processes import COMMAND, NodeHome, clean_environ, running_node
from support.spec.clauses import clause
from support.system.mount_namespaces import why_no_namespaces, with_small_disk
from support.system.wait_until import LIMIT_S

FILL_AND_RESTART = """
import asyncio, json, os, subprocess, sys, time
from pathlib import Path
from restante import Client, StoreUnusable

command, relay, disk, elsewhere = sys.argv[1:]
homes = {"alice": f"{disk}/alice", "bob": f"{elsewhere}/bob"}

def restante(name, *words):
    done = subprocess.run([command, *words, "--home", homes[name]], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr

async def fill():
    client, accepted = Client.open(homes["alice"]), 0
    try:
        while True:
            await client.send("bob", "x" * 100_000)
            accepted += 1
    except StoreUnusable:
        return accepted
    finally:
        await client.close()

def in_flight():
    stats = json.loads(restante("alice", "outbox", "stats", "--json")[1])
    return sum(one["messages"] for one in stats["states"].values())

for name, home in homes.items():
    subprocess.run([command, "id", "new", home, "--relay", relay, "--no-passphrase"], check=True, capture_output=True)
    restante(name, "id", "export", "-o", f"{elsewhere}/{name}.json")
restante("alice", "contact", "add", "bob", f"{elsewhere}/bob.json")
restante("bob", "contact", "add", "alice", f"{elsewhere}/alice.json")
accepted = asyncio.run(fill())
with open(f"{disk}/other", "wb", buffering=0) as other:
    try:
        while True:
            other.write(bytes(4_096))
    except OSError:
        pass
assert os.statvfs(disk).f_bavail == 0
running = [subprocess.Popen([command, "run", "--home", home]) for home in homes.values()]
until = time.monotonic() + 50
while in_flight() and time.monotonic() < until and running[0].poll() is None:
    time.sleep(0.1)
print("accepted", accepted, "in flight", in_flight(), "ended", running[0].poll())
print(*restante("alice", "send", "bob", "once more"))
for each in running:
    each.terminate()
print("statuses", *(each.wait() for each in running))
"""


@clause("1.4", "3.11")
def test_a_client_that_starts_on_a_full_disk_sends_what_is_queued(tmp_path: Path) -> None:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(f"no process can have mounts of its own here: {reason}")
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    elsewhere.mkdir()
    with running_node(NodeHome.made(tmp_path / "node")) as node:
        script = [sys.executable, "-c", FILL_AND_RESTART, COMMAND, str(node.relay), str(disk), str(elsewhere)]
        done = subprocess.run(
            [*with_small_disk(disk, size="40m"), *script],
            env=clean_environ(),
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "in flight 0 ended None\n" in done.stdout, done.stdout + done.stderr
    assert "\n0 " in done.stdout, "the space of what was deleted is used again: " + done.stdout
    assert done.stdout.endswith("statuses 0 0\n"), done.stdout + done.stderr
