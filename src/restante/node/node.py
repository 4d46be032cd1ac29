"""A relay node inside a program: for tests, examples and small deployments.

    async with Node.open("relay") as node:
        print(node.place)

`restante node run` is the node for servers: it adds signals, logs, health and metrics.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from restante.model.errors import EnvironmentUnsuitable, StoreUnusable
from restante.model.places import RelayPlace
from restante.node.config import load_node_config
from restante.node.relay import Relay
from restante.policy.settings import Settings
from restante.ports.clock import Clock
from restante.ports.entropy import Entropy
from restante.runtime.directory_lock import hold
from restante.runtime.endpoints import Endpoint, parse_endpoint
from restante.runtime.node_home import NodeDirectory
from restante.runtime.sqlite.file.node_file import NodeFile
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy


class Node:
    """A relay that serves while its `async with` block runs."""

    def __init__(
        self, directory: NodeDirectory, *, listen: Endpoint, settings: Settings, clock: Clock, entropy: Entropy
    ) -> None:
        self._directory = directory
        self._listen = listen
        self._settings = settings
        self._clock = clock
        self._entropy = entropy
        self._identity = directory.identity()
        self._place: RelayPlace | None = None
        self._closing = contextlib.AsyncExitStack()

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        listen: str | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> "Node":
        """Open the node of a directory; create an identity and a configuration if it is new or empty.

        `listen` (`HOST:PORT`, port 0 for any free one) and `settings` replace those of the directory's `node.toml`.
        """
        home = NodeDirectory(Path(directory))
        entropy = entropy or SystemEntropy()
        if not home.path.exists() or not any(home.path.iterdir()):
            home.create("# Every setting has its default.\n", entropy)
        home.check()
        config = load_node_config(home.config, environ=os.environ, overrides={})
        return cls(
            home,
            listen=config.listen if listen is None else parse_endpoint(listen),
            settings=settings or config.settings,
            clock=clock or SystemClock(),
            entropy=entropy,
        )

    @property
    def place(self) -> RelayPlace:
        """Where the node listens and the key it proves: what contacts name as their relay."""
        if self._place is None:
            raise StoreUnusable("the node does not listen yet: enter its 'async with' block first")
        return self._place

    async def __aenter__(self) -> Self:
        """Lock the directory, open the store and listen."""
        try:
            lock = hold(self._directory.lock, what=f"the node in {self._directory.path}")
            self._closing.enter_context(lock)
            file = NodeFile.open(self._directory.database, entropy=self._entropy)
            self._closing.callback(file.close)
            store = SqliteMailbox(file.database, file.journal, tag_secret=self._identity.tag_secret)
            self._closing.callback(store.close)
            relay = Relay(
                self._identity,
                store,
                commits=file.commits,
                settings=self._settings,
                clock=self._clock,
                entropy=self._entropy,
            )
            server = await relay.listen(self._listen.host, self._listen.port)
            self._closing.push_async_callback(relay.stop)
        except OSError as error:
            await self._closing.aclose()
            raise EnvironmentUnsuitable(f"{self._listen} cannot be listened at: {error.strerror}") from error
        except BaseException:
            await self._closing.aclose()
            raise
        host, port = server.sockets[0].getsockname()[:2]
        self._place = RelayPlace(node_key=self._identity.node_key, host=host, port=port)
        reaping = asyncio.create_task(self._reap(relay))
        self._closing.push_async_callback(_cancel, reaping)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Answer the puts in progress, then close connections and files."""
        self._place = None
        await self._closing.aclose()

    async def _reap(self, relay: Relay) -> None:
        while True:
            with contextlib.suppress(StoreUnusable):
                await relay.reap()
            await asyncio.sleep(self._settings.relay.reap_interval_ms / 1_000)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
