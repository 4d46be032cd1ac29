"""The command line with a node that misbehaves: `python bad_node.py LIE FIREWALL node run DIR`.

FIREWALL is a file that the test writes: hosts to which this process has no connection now.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from restante.core.circuit import exit_streams
from restante.policy.circuits.token_bucket import TokenBucket
from restante.policy.quota import Refusal
from restante.runtime.sqlite.mesh.store import FoundBlocks, MeshKeep, SqliteMeshStore
from restante.wire.envelope import decode_envelope, encode_envelope
from restante.wire.frames.mesh_replication import Block

LOOK_S = 0.05


class Firewall:
    """Cuts connections of this process to the hosts in a file, open ones and new ones."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._open: list[tuple[str, asyncio.BaseTransport]] = []
        self._dial = asyncio.base_events.BaseEventLoop.create_connection

    def cut(self, hosts: Sequence[str]) -> None:
        aside = self.file.with_suffix(".new")
        aside.write_text(" ".join(hosts), "utf-8")
        aside.replace(self.file)

    def install(self, patch: Callable[[object, str, object], None] = setattr) -> None:
        firewall, dial = self, self._dial

        async def create_connection(loop: Any, factory: Any, host: str, port: int, **more: Any) -> Any:
            if host in firewall._blocked():
                raise ConnectionRefusedError(f"{host} is cut off")
            transport, protocol = await dial(loop, factory, host, port, **more)
            if not firewall._open:
                loop.call_soon(firewall._enforce, loop)
            firewall._open.append((host, transport))
            return transport, protocol

        patch(asyncio.base_events.BaseEventLoop, "create_connection", create_connection)

    def _blocked(self) -> frozenset[str]:
        return frozenset(self.file.read_text("utf-8").split()) if self.file.exists() else frozenset()

    def _enforce(self, loop: asyncio.AbstractEventLoop) -> None:
        blocked = self._blocked()
        for host, transport in self._open:
            if host in blocked and isinstance(transport, asyncio.Transport):
                transport.abort()
        self._open = [each for each in self._open if not each[1].is_closing()]
        if self._open:
            loop.call_later(LOOK_S, self._enforce, loop)


def honest() -> None:
    """Do everything right."""


def drops() -> None:
    """Sign for every put and store none."""

    def put_all(_self: SqliteMeshStore, puts: Sequence[MeshKeep], **_more: Any) -> list[Refusal | None]:
        return [None] * len(puts)

    SqliteMeshStore.put_all = put_all  # type: ignore[method-assign,assignment]  # the lie


def hides() -> None:
    """Store everything and list nothing."""
    SqliteMeshStore.listed = lambda _self, _key, **_more: []  # type: ignore[method-assign]  # the lie


def alters() -> None:
    """Send other bytes than were stored."""
    read = SqliteMeshStore.read

    def altered(self: SqliteMeshStore, *args: Any, **more: Any) -> FoundBlocks:
        found = read(self, *args, **more)
        return FoundBlocks([_forged(each) for each in found.blocks], found.damaged)

    SqliteMeshStore.read = altered  # type: ignore[method-assign]  # the lie


def refuses_stores() -> None:
    """As an exit, take no STORE while there is a file of that name next to the firewall's."""
    switch = Path(sys.argv[2]).with_name("refuses_stores")

    class Meter(TokenBucket):
        def take(self, count: float, now_s: float) -> bool:
            return not switch.exists() and super().take(count, now_s)

        def wait_ms(self, count: float) -> int:
            return 2_000 if switch.exists() else super().wait_ms(count)

    exit_streams.TokenBucket = Meter  # type: ignore[attr-defined]  # the lie


def _forged(block: Block) -> Block:
    envelope = decode_envelope(block.envelope)
    forged = type(envelope)(
        inbox_key=envelope.inbox_key, expires_at_ms=envelope.expires_at_ms, sealed=bytes(len(envelope.sealed))
    )
    return Block(blinded=block.blinded, bucket=block.bucket, envelope=encode_envelope(forged))


LIES: dict[str, Callable[[], None]] = {each.__name__: each for each in (honest, drops, hides, alters, refuses_stores)}


def command(lie: str, firewall: Path) -> list[str]:
    """Return the command that starts such a node, before `node run DIR`."""
    return [sys.executable, __file__, lie, str(firewall)]


if __name__ == "__main__":
    LIES[sys.argv[1]]()
    Firewall(Path(sys.argv[2])).install()
    del sys.argv[1:3]
    from restante.cli.main import main

    main()
