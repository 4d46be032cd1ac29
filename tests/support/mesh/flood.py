"""Floods a node of the mesh from a network of its own: `python flood.py KEY@HOST:PORT REQUESTS_PER_S`, until ended.

It asks for lists of fresh keys, copies of the directory and DELETEs of hashes that never were, and puts into hours to
come. It prints a line once it has begun, and on SIGTERM how many of its requests the node has answered or refused.
"""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from restante.core.mesh_proofs.reading import prove_entry, sign_delete
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, BlindedSigner, in_period
from restante.crypto.identity import Identity
from restante.model.ids import PayloadHash
from restante.model.places import RelayPlace
from restante.policy.failures import Failure
from restante.policy.mesh.time_buckets import HOUR_MS, bucket_at
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.endpoints import parse_relay_place
from restante.runtime.system import SystemClock
from restante.runtime.transport.mesh_connection import MeshConnection
from restante.wire.envelope import Envelope, encode_envelope
from restante.wire.frames.mesh_reading import FetchEntry
from restante.wire.frames.mesh_types import MeshFrameType
from restante.wire.mesh_keys import mesh_inbox_key

SOURCE = "127.0.9.1"
CONNECTIONS = 20
OWNERS = 640
ENTRIES = 64
HASHES = 1_024
TICK_S = 0.05


class Flood:
    def __init__(self, place: RelayPlace) -> None:
        self._place = place
        self._bucket = bucket_at(SystemClock().now_ms())
        owners = (Identity(os.urandom(32)) for _ in range(OWNERS))
        self._signers = itertools.cycle([BlindedSigner(each, place=in_period(self._bucket)) for each in owners])
        self._under_way: set[asyncio.Task[None]] = set()
        self._handled = 0

    async def run(self, per_s: int) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._report)
        connections = [await self._dial() for _ in range(CONNECTIONS)]
        attacks = itertools.cycle([self._fetch, self._sync, self._delete, self._put_ahead])
        turns = itertools.cycle(range(CONNECTIONS))
        print("begun", flush=True)  # noqa: T201 - for the test that started this process
        due_s = loop.time()
        while True:
            for _ in range(round(per_s * TICK_S)):
                at = next(turns)
                if not connections[at].is_ready:
                    connections[at] = await self._dial()
                task = asyncio.create_task(self._try(partial(next(attacks), connections[at])))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            due_s = max(due_s + TICK_S, loop.time())  # what was late is not made up for by a burst
            await asyncio.sleep(due_s - loop.time())

    def _report(self) -> None:
        print(self._handled, flush=True)  # noqa: T201

    async def _dial(self) -> MeshConnection:
        return await MeshConnection.connect(self._place.host, self._place.port, node=self._place.node_key)

    async def _try(self, attack: Callable[[], Awaitable[object]]) -> None:
        try:
            await attack()
        except AttemptFailed as error:
            if error.failure is Failure.NETWORK_TIMEOUT:
                return  # not answered
            # Else it is refused, as it should be.
        self._handled += 1

    async def _fetch(self, connection: MeshConnection) -> None:
        await connection.fetch([self._entry(connection, next(self._signers)) for _ in range(ENTRIES)])

    def _entry(self, connection: MeshConnection, signer: BlindedSigner) -> FetchEntry:
        return prove_entry(
            signer,
            FetchEntry(blinded=signer.public_key, bucket=self._bucket, after=0),
            MeshFrameType.FETCH,
            challenge=connection.hello.challenge,
            connection=connection.binding,
            entropy=os.urandom(SIGNING_ENTROPY_BYTES),
        )

    async def _sync(self, connection: MeshConnection) -> None:
        await connection.sync_directory(0, bytes(32))

    async def _delete(self, connection: MeshConnection) -> None:
        hashes = [PayloadHash(os.urandom(32)) for _ in range(HASHES)]
        entropy = os.urandom(SIGNING_ENTROPY_BYTES)
        await connection.delete(sign_delete(next(self._signers), self._bucket, hashes, entropy=entropy))

    async def _put_ahead(self, connection: MeshConnection) -> None:
        bucket = self._bucket + 2
        blinded = BlindedSigner(Identity(os.urandom(32)), place=in_period(bucket)).public_key
        key = mesh_inbox_key(blinded, bucket)
        envelope = Envelope(inbox_key=key, expires_at_ms=(bucket + 48) * HOUR_MS, sealed=os.urandom(5_000))
        await connection.put(blinded, bucket, encode_envelope(envelope))


def leave_from(host: str, patch: Callable[[object, str, object], None] = setattr) -> None:
    """Let every connection of this process come from this address: nodes share their capacity among networks."""
    dial = asyncio.base_events.BaseEventLoop.create_connection

    async def create_connection(loop: Any, *given: Any, **more: Any) -> Any:
        return await dial(loop, *given, local_addr=(host, 0), **more)

    patch(asyncio.base_events.BaseEventLoop, "create_connection", create_connection)


if __name__ == "__main__":
    leave_from(SOURCE)
    asyncio.run(Flood(parse_relay_place(sys.argv[1])).run(int(sys.argv[2])))
