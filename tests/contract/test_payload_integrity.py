"""`outbox check` compares the payload of encrypted mail with its hash in the journal (SPEC 1.4)."""

import asyncio
from pathlib import Path

import pytest

from restante.client.client import Client
from restante.runtime.sqlite.file.integrity import check_file
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, client_in, introduce
from support.spec.clauses import clause

LIMIT_S = 20.0


def findings(client: Client) -> list[str]:
    return [each for check in check_file(client.parts.file.database) for each in check.findings]


@clause("1.4", "13.1")
@pytest.mark.parametrize("cut", ["substr(payload, 1, 100)", "CAST(payload || x'00' AS BLOB)", "x''"])
async def test_mail_that_was_cut_short_or_changed_on_disk_is_found(tmp_path: Path, cut: str) -> None:
    clock = FakeClock()
    alice, bob = client_in(tmp_path / "alice", clock=clock), client_in(tmp_path / "bob", clock=clock)
    await introduce(alice, bob, name="bob")
    await introduce(bob, alice, name="alice")
    async with asyncio.timeout(LIMIT_S):
        await alice.send("bob", "hello")
        assert findings(alice) == [], "not encrypted yet"
        assert await Post(clock).collect(alice)
        assert findings(alice) == []
        alice.parts.file.database.run(f"UPDATE message_body SET payload = {cut}")  # noqa: S608 - text of this test
        [finding] = findings(alice)
    assert "differs from its hash in the journal" in finding
    await alice.close()
    await bob.close()
