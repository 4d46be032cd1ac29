"""Connect to a relay, send one kind of request, disconnect: the work of `restante relay`."""

import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from restante.cli.terminal import HINT
from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, TooLarge
from restante.model.ids import Address
from restante.model.places import RelayPlace
from restante.ports.relay_connection import AttemptFailed, StoredBlob
from restante.runtime.identity_files import load_identity
from restante.runtime.system import SystemClock
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.address import parse_address
from restante.wire.envelope import MAX_ENVELOPE_BYTES, Envelope, decode_envelope, encode_envelope, hash_sealed_bytes
from restante.wire.frames.mailbox import MAX_DELETED_AT_ONCE

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnvelope:
    payload_hash: str
    size_bytes: int
    stored_at_ms: int

    def data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEnvelope:
    """A blob that the relay stores. `payload_hash` and `expires_at_ms` are None if it is not a valid envelope."""

    blob_id: int
    stored_at_ms: int
    size_bytes: int
    expires_at_ms: int | None
    payload_hash: str | None

    def data(self) -> dict[str, Any]:
        return asdict(self)


def read_envelope(file: Path) -> bytes:
    """Read an envelope from a file, or from standard input for `-`. Raise if the bytes are not an envelope."""
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


def random_envelopes(
    identity: Path | None, address: str | None, *, relay: RelayPlace, count: int, size: int, hours: int
) -> list[bytes]:
    """Make envelopes of random bytes for the public inbox of an identity's file or an address."""
    owner: Address = load_identity(identity).address if identity is not None else parse_address(address or "")
    expires_at_ms = (SystemClock().now_ms() // HOUR_MS + hours + 1) * HOUR_MS
    inbox = relay_inbox_key(owner, relay.node_key)
    return [
        encode_envelope(Envelope(inbox_key=inbox, expires_at_ms=expires_at_ms, sealed=secrets.token_bytes(size)))
        for _ in range(count)
    ]


def put_all(relay: RelayPlace, envelopes: Sequence[bytes]) -> tuple[list[StoredEnvelope], float]:
    """Put all envelopes. Return the relay's acknowledgements and the time it took. Raise the first refusal."""
    return asyncio.run(_put_all(relay, envelopes))


def flush_all(
    relay: RelayPlace, identity: Path, *, delete: bool, limit: int, idle_timeout_ms: int
) -> list[HeldEnvelope]:
    owner = load_identity(identity)
    return asyncio.run(_flush_all(relay, owner, delete=delete, limit=limit, idle_timeout_ms=idle_timeout_ms))


async def _put_all(relay: RelayPlace, envelopes: Sequence[bytes]) -> tuple[list[StoredEnvelope], float]:
    link = await _connect(relay)
    try:
        began_s = time.perf_counter()
        answers = await link.put_many(envelopes)
        took_s = time.perf_counter() - began_s
    finally:
        await link.close()
    stored: list[StoredEnvelope] = []
    refusals: list[AttemptFailed] = []
    for raw, answer in zip(envelopes, answers, strict=True):
        if isinstance(answer, AttemptFailed):
            refusals.append(answer)
            continue
        hashed = hash_sealed_bytes(decode_envelope(raw).sealed).hex()
        stored.append(StoredEnvelope(payload_hash=hashed, size_bytes=len(raw), stored_at_ms=answer.ack.timestamp_ms))
    if refusals:
        refusals[0].add_note(f"{len(stored)} of {len(envelopes)} were stored")
        raise _advised(refusals[0])
    return stored, took_s


async def _flush_all(
    relay: RelayPlace, owner: Identity, *, delete: bool, limit: int, idle_timeout_ms: int
) -> list[HeldEnvelope]:
    link = await _connect(relay)
    held: list[HeldEnvelope] = []
    try:
        await link.subscribe(OwnInbox(owner))
        while len(held) < limit:
            try:
                async with asyncio.timeout(idle_timeout_ms / 1_000):
                    came = (await link.next_blobs())[: limit - len(held)]
            except TimeoutError:
                break
            held += map(_held, came)
            for start in range(0, len(came) if delete else 0, MAX_DELETED_AT_ONCE):
                await link.delete_many([blob.blob_id for blob in came[start : start + MAX_DELETED_AT_ONCE]])
    except AttemptFailed as problem:
        raise _advised(problem) from None
    finally:
        await link.close()
    return held


async def _connect(relay: RelayPlace) -> TlsRelayConnection:
    try:
        return await TlsRelayConnection.connect(relay.host, relay.port, node=relay.node_key)
    except AttemptFailed as problem:
        problem.add_note(
            f"{HINT}Compare key, host and port with the output of 'restante node status' on the node's machine."
        )
        raise


def _advised(problem: AttemptFailed) -> AttemptFailed:
    """Add a hint: this command does not retry."""
    if problem.code in (Code.NETWORK_UNREACHABLE, Code.STORAGE_FAILED):
        problem.add_note(
            f"{HINT}Check the node with 'restante node status' on its machine, then run the command again."
        )
    return problem


def _held(blob: StoredBlob) -> HeldEnvelope:
    expires_at_ms, hashed = None, None
    try:
        envelope = decode_envelope(blob.envelope)
        expires_at_ms, hashed = envelope.expires_at_ms, hash_sealed_bytes(envelope.sealed).hex()
    except ValueError:
        pass
    return HeldEnvelope(
        blob_id=blob.blob_id,
        stored_at_ms=blob.stored_at_ms,
        size_bytes=len(blob.envelope),
        expires_at_ms=expires_at_ms,
        payload_hash=hashed,
    )
