"""Two clients of which one stops at a chosen commit, just before it or just after, and is opened again."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from restante.client.client import Client
from restante.model.states import Route
from restante.testing.deterministic import FakeClock
from support.client.client_pairs import Post, bodies, client_in, introduce

DAY_MS = 86_400_000
NAMES = ("alice", "bob")
ROUNDS_TO_HEAL = 5


class PowerFailed(Exception):
    """The client stopped here."""


@dataclass
class Crash:
    """Stop `name` at its commit number `at`. A stopped client commits nothing more."""

    name: str
    at: int
    is_after: bool
    commits: int = 0
    is_stopped: bool = False

    def watch(self, client: Client) -> None:
        client.file.database.before_commit(self._before)
        client.file.database.after_commit(self._after)

    def _before(self) -> None:
        if self.is_stopped:
            raise PowerFailed
        self.commits += 1
        self._stop_if(is_after=False)

    def _after(self) -> None:
        self._stop_if(is_after=True)

    def _stop_if(self, *, is_after: bool) -> None:
        if self.commits == self.at and self.is_after is is_after:
            self.is_stopped = True
            raise PowerFailed


@dataclass
class CrashingPair:
    """`relay` keeps what a client transmitted until its recipient has received it."""

    home: Path
    crash: Crash
    clock: FakeClock = field(default_factory=FakeClock)
    clients: dict[str, Client] = field(default_factory=dict)
    relay: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in NAMES})
    accepted: dict[str, list[bytes]] = field(default_factory=lambda: {name: [] for name in NAMES})
    lives: int = 0
    _is_open_again: bool = False

    async def meet(self) -> None:
        for name in NAMES:
            self._open(name)
        await introduce(self.clients["alice"], self.clients["bob"], name="bob")
        await introduce(self.clients["bob"], self.clients["alice"], name="alice")
        self.crash.watch(self.clients[self.crash.name])

    async def say(self, name: str, text: bytes) -> None:
        """What `send` accepted must arrive; what it refused may."""

        async def send(client: Client) -> None:
            await client.send(_other(name), text)
            self.accepted[name].append(text)

        await self._do(name, send)

    async def round_trip(self) -> None:
        for name in NAMES:
            await self._do(name, lambda client: client.run_maintenance())
            self.clock.advance(1_100)
            await self._do(name, lambda client: client.run_maintenance())
            await self._do(name, self._transmit)
            await self._do(_other(name), self._receive)

    async def reset(self, name: str) -> None:
        await self._do(name, lambda client: client.reset_sessions(_other(name)))

    async def heal(self) -> None:
        for _ in range(ROUNDS_TO_HEAL):
            await self.round_trip()
            self.clock.advance(DAY_MS)

    def shown(self, name: str) -> list[bytes]:
        return bodies(self.clients[name], self.clock)

    async def close(self) -> None:
        for client in self.clients.values():
            await client.close()

    async def _transmit(self, client: Client) -> None:
        name = next(each for each in NAMES if self.clients[each] is client)
        post = Post(self.clock, self.relay[_other(name)])
        await client.outbox.drain({Route.RELAY: post})

    async def _receive(self, client: Client) -> None:
        name = next(each for each in NAMES if self.clients[each] is client)
        await client.receive(Post(self.clock).blobs(self.relay[name]))
        self.relay[name].clear()

    async def _do(self, name: str, operation: Callable[[Client], Awaitable[object]]) -> None:
        """Do it; if the client stopped, open its file again, as another process would."""
        with suppress(PowerFailed):
            await operation(self.clients[name])
        if self.crash.is_stopped and not self._is_open_again:
            self._is_open_again = True
            with suppress(PowerFailed):
                self.clients[name].file.close()
            self._open(name)

    def _open(self, name: str) -> None:
        self.lives += 1
        self.clients[name] = client_in(self.home / name, clock=self.clock, seed=self.lives)


def _other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]
