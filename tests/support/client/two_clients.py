"""Two clients that know each other, in directories of their own, and a post between them."""

import hashlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from restante.client.client import Client
from restante.policy.reorder_limits import OrderLimits
from restante.policy.settings import Settings
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post

SMALL_GAP = Settings(order=OrderLimits(max_gap=6))
STATE = (
    "session",
    "peer",
    "own_prekeys",
    "inbox_session",
    "reorder_buffer",
    "inbox_message",
    "dedup",
    "pending_ack",
)


@dataclass(slots=True)
class Two:
    home: Path
    clock: FakeClock
    alice: Client
    bob: Client
    post: Post

    async def say(self, *texts: bytes) -> None:
        for text in texts:
            await self.alice.send(self.bob.identity.address, text)

    async def answer(self, *texts: bytes) -> None:
        for text in texts:
            await self.bob.send(self.alice.identity.address, text)

    async def talk(self, rounds: int = 3) -> None:
        await self.post.exchange(self.alice, self.bob, rounds=rounds)

    async def sessions(self) -> list[tuple[bytes, bytes]]:
        """What each side writes in."""
        return [
            (one.session_id, other.session_id)
            for one in await self.alice.sessions()
            if one.is_current
            for other in await self.bob.sessions()
            if other.is_current
        ]


def digest(two: Two, name: str, *tables: str) -> str:
    """Of every row of these tables, as they are in the file now."""
    found = hashlib.sha256()
    with sqlite3.connect(two.home / name / "client.db") as connection:
        for table in tables:
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2"):  # noqa: S608 - our own names
                found.update(repr(row).encode())
    connection.close()
    return found.hexdigest()
