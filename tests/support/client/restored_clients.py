"""Two clients that talk by hand, whose files can be copied and put back, and bytes that claim to be of a contact."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from restante.client.client import Client
from restante.core.relay_envelope import build_relay_envelope
from restante.core.session_messages import unseal_envelope
from restante.crypto.sealing import seal
from restante.model.contact_card import ContactCard
from restante.model.ids import Address, SessionId, mint_message_id
from restante.model.kinds import Kind
from restante.policy.padding import pad
from restante.runtime.restore_counter import counter_path
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.wire.session_message import SessionMessage, encode_session_message
from support.client.client_pairs import RELAY, Post, client_in, introduce

DAY_MS = 86_400_000
NAMES = ("alice", "bob")


@dataclass
class Pair:
    """`seen` are all envelopes that ever left; every (ratchet key, number, random bytes) among them is checked."""

    home: Path
    clock: FakeClock = field(default_factory=FakeClock)
    clients: dict[str, Client] = field(default_factory=dict)
    lives: int = 1
    keys: dict[bytes, bytes] = field(default_factory=dict)

    async def meet(self) -> None:
        for name in NAMES:
            self.clients[name] = client_in(self.home / name, clock=self.clock)
        await self.exchange_cards()

    async def exchange_cards(self) -> None:
        await introduce(self.clients["alice"], self.clients["bob"], name="bob")
        await introduce(self.clients["bob"], self.clients["alice"], name="alice")

    def other(self, name: str) -> str:
        return NAMES[1 - NAMES.index(name)]

    async def say(self, name: str, text: bytes) -> None:
        await self.clients[name].send(self.other(name), text)

    async def collect(self, name: str) -> list[bytes]:
        envelopes = await Post(self.clock).collect(self.clients[name])
        recipient = self.clients[self.other(name)].identity
        for raw in envelopes:
            message = unseal_envelope(raw, recipient=recipient).message
            key = message.ratchet[:36] + message.ratchet[40:56]
            assert self.keys.setdefault(key, message.ratchet) == message.ratchet, "a message key is used twice"
        return envelopes

    async def deliver(self, name: str, envelopes: list[bytes]) -> None:
        await self.clients[name].receive(Post(self.clock).blobs(envelopes))

    async def round_trip(self) -> None:
        for name in NAMES:
            await self.clients[name].run_maintenance()
            self.clock.advance(1_100)
            await self.clients[name].run_maintenance()
            await self.deliver(self.other(name), await self.collect(name))

    async def back_up(self, name: str) -> None:
        """Copy the database as a user would, with the client closed."""
        await self.reopen(name)
        await self.clients[name].close()
        shutil.copy(self.home / name / "client.db", self.home / f"{name}.backup")
        self._open(name)

    async def restore(self, name: str, *, is_noticed: bool) -> None:
        await self.clients[name].close()
        database = self.home / name / "client.db"
        for suffix in ("-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        shutil.copy(self.home / f"{name}.backup", database)
        if not is_noticed:
            stored = await self._counter_in(database)
            counter_path(database).write_bytes(stored)
        self._open(name)

    async def reopen(self, name: str) -> None:
        await self.clients[name].close()
        self._open(name)

    def _open(self, name: str) -> None:
        self.lives += 1
        self.clients[name] = client_in(self.home / name, clock=self.clock, seed=self.lives)

    async def _counter_in(self, database: Path) -> bytes:
        import sqlite3

        connection = sqlite3.connect(database)
        [(value,)] = connection.execute("SELECT value FROM meta WHERE key = 'restore_counter'")
        connection.close()
        return bytes(value)

    async def current(self) -> set[bytes]:
        return {one.session_id for client in self.clients.values() for one in await client.sessions() if one.is_current}

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()


def forged(sender: Address, to: ContactCard, session: SessionId, generation: int, entropy: SeededEntropy) -> bytes:
    """What an outsider can make from two public contact files: sealed bytes with any claim, but without the tag."""
    message = SessionMessage(
        sender=sender,
        session_id=session,
        message_id=mint_message_id(entropy.draw(16)),
        generation=generation,
        ratchet=entropy.draw(100),
    )
    sealed = seal(pad(encode_session_message(message, lambda _covered: entropy.draw(16))), to)
    return build_relay_envelope(
        sealed,
        recipient=to.address,
        relay=RELAY.node_key,
        kind=Kind.TEXT,
        expires_at_ms=FakeClock().now_ms() + DAY_MS,
        now_ms=FakeClock().now_ms(),
    )
