"""`restante sessions reset`: a person replaces the sessions with one contact (SPEC 8.7)."""

import asyncio
import json
from pathlib import Path

from restante.client.client import Client
from restante.runtime.system import SystemClock
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, bodies, client_in, introduce
from support.relay.node_processes import restante
from support.spec.clauses import clause


async def talked(home: Path, clock: FakeClock) -> None:
    """Alice and Bob have a session, and a message of Bob is on its way."""
    alice, bob = opened(home, clock)
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    await alice.send("bob", b"hello")
    await Post(clock).exchange(alice, bob, rounds=2)
    await bob.send("alice", b"on its way")
    for client in (alice, bob):
        await client.close()


def opened(home: Path, clock: FakeClock) -> tuple[Client, Client]:
    return client_in(home / "alice", clock=clock), client_in(home / "bob", clock=clock)


async def received_in(home: Path, clock: FakeClock) -> tuple[list[bytes], list[str]]:
    """Return what Alice gets when both talk again, and the sessions in use on both sides."""
    alice, bob = opened(home, clock)
    await Post(clock).exchange(alice, bob)
    shown = bodies(alice, clock)
    current = {one.session_id.hex() for client in (alice, bob) for one in await client.sessions() if one.is_current}
    for client in (alice, bob):
        await client.close()
    return shown, [session[:8] for session in current]


@clause("8.7")
def test_sessions_reset_replaces_the_sessions_with_one_contact_and_nothing_is_lost(tmp_path: Path) -> None:
    clock = FakeClock(SystemClock().now_ms())
    asyncio.run(talked(tmp_path, clock))
    home = ("--home", str(tmp_path / "alice"))
    [before] = json.loads(restante("sessions", *home, "--json").stdout)
    assert restante("sessions", "reset", "bob", *home).stdout.startswith("The sessions with bob were deleted;")
    [after] = json.loads(restante("sessions", *home, "--json").stdout)
    assert (before["generation"], before["state"]) == (1, "in use")
    assert (after["generation"], after["state"]) == (2, "not answered")
    refused = restante("sessions", "reset", "carol", *home, status=1)
    assert "carol" in refused.stderr
    clock.at_ms = SystemClock().now_ms()
    assert asyncio.run(received_in(tmp_path, clock)) == ([b"on its way"], [after["session"]])
