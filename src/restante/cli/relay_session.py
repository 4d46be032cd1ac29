"""One visit to a relay: connect, ask, leave. What `restante relay` does behind its options."""

import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from restante.crypto.identity import Identity
from restante.model.codes import Code
from restante.model.errors import RestanteError, TooLarge
from restante.model.ids import Address
from restante.ports.relay import Blob
from restante.runtime.endpoints import PinnedRelay
from restante.runtime.identity_files import load_identity
from restante.runtime.system import SystemClock
from restante.runtime.transport.relay_link import TcpRelayLink
from restante.wire.address import parse_address
from restante.wire.envelope import MAX_ENVELOPE_BYTES, Envelope, decode_envelope, encode_envelope, payload_hash
from restante.wire.inbox_keys import relay_inbox_key

HOUR_MS: Final = 3_600_000
IN_FLIGHT: Final = 64
DELETE_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnvelope:
    payload_hash: str
    size_bytes: int
    stored_at_ms: int

    def data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEnvelope:
    """`payload_hash` and `expires_at_ms` are None where the relay handed over what is no envelope."""

    blob_id: int
    stored_at_ms: int
    size_bytes: int
    expires_at_ms: int | None
    payload_hash: str | None

    def data(self) -> dict[str, Any]:
        return asdict(self)


def read_envelope(file: Path) -> bytes:
    """The bytes of a file, or of the standard input for `-`; refused when they are no envelope."""
    try:
        if str(file) == "-":
            raw = sys.stdin.buffer.read(MAX_ENVELOPE_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(MAX_ENVELOPE_BYTES + 1)
    except OSError as error:
        raise RestanteError(f"{file} cannot be read: {error.strerror}", code=Code.NOT_FOUND) from error
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise TooLarge("the envelope", size_bytes=len(raw), limit_bytes=MAX_ENVELOPE_BYTES)
    decode_envelope(raw)
    return raw


def random_envelopes(identity: Path | None, address: str | None, *, count: int, size: int, hours: int) -> list[bytes]:
    """Envelopes of random bytes, which nobody can open, for an identity's file or an address."""
    owner: Address = load_identity(identity).address if identity is not None else parse_address(address or "")
    expires_at_ms = (SystemClock().now_ms() // HOUR_MS + hours + 1) * HOUR_MS
    inbox = relay_inbox_key(owner)
    return [
        encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=expires_at_ms, sealed=secrets.token_bytes(size)))
        for _ in range(count)
    ]


def put_all(relay: PinnedRelay, envelopes: Sequence[bytes]) -> tuple[list[StoredEnvelope], float]:
    """The relay's word for each, and how long all of them took; the first refusal ends it."""
    return asyncio.run(_put_all(relay, envelopes))


def flush_all(relay: PinnedRelay, identity: Path, *, delete: bool, limit: int, quiet_ms: int) -> list[HeldEnvelope]:
    owner = load_identity(identity)
    return asyncio.run(_flush_all(relay, owner, delete=delete, limit=limit, quiet_ms=quiet_ms))


async def _put_all(relay: PinnedRelay, envelopes: Sequence[bytes]) -> tuple[list[StoredEnvelope], float]:
    link = await _connect(relay)
    room = asyncio.Semaphore(IN_FLIGHT)

    async def put_one(raw: bytes) -> StoredEnvelope:
        async with room:
            ack = await link.put(raw)
        hashed = payload_hash(decode_envelope(raw).sealed).hex()
        return StoredEnvelope(payload_hash=hashed, size_bytes=len(raw), stored_at_ms=ack.timestamp_ms)

    began_s = time.perf_counter()
    try:
        tasks = [asyncio.create_task(put_one(raw)) for raw in envelopes]
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for task in done:
            if (problem := task.exception()) is not None:
                kept = sum(one.exception() is None for one in done)
                problem.add_note(f"{kept} of {len(envelopes)} were stored before this answer was seen")
                raise problem
        return [task.result() for task in tasks], time.perf_counter() - began_s
    finally:
        await link.close()


async def _flush_all(
    relay: PinnedRelay, owner: Identity, *, delete: bool, limit: int, quiet_ms: int
) -> list[HeldEnvelope]:
    link = await _connect(relay)
    held: list[HeldEnvelope] = []
    try:
        await link.open(owner)
        while len(held) < limit:
            try:
                async with asyncio.timeout(quiet_ms / 1_000):
                    blob = await link.next_blob()
            except TimeoutError:
                break
            held.append(_held(blob))
            if delete:
                await link.delete(blob.blob_id)
    finally:
        await link.close()
    return held


async def _connect(relay: PinnedRelay) -> TcpRelayLink:
    return await TcpRelayLink.connect(relay.endpoint.host, relay.endpoint.port, node=relay.key)


def _held(blob: Blob) -> HeldEnvelope:
    expires_at_ms, hashed = None, None
    try:
        envelope = decode_envelope(blob.envelope)
        expires_at_ms, hashed = envelope.expires_at_ms, payload_hash(envelope.sealed).hex()
    except ValueError:
        pass
    return HeldEnvelope(
        blob_id=blob.blob_id,
        stored_at_ms=blob.stored_at_ms,
        size_bytes=len(blob.envelope),
        expires_at_ms=expires_at_ms,
        payload_hash=hashed,
    )
