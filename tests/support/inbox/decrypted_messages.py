"""Letters as they arrive, opened; and the shortest ways to take one in and to look at what came of it."""

from typing import Final

from restante.core.decrypted_messages import DecryptedMessage
from restante.model.ids import Address, SessionId
from restante.model.inbox_entry import InboxEntry
from restante.model.kinds import Kind, TtlType
from restante.model.states import Verdict
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.ttl_header import TtlHeader
from support.fleet.journal_files import message
from support.sqlite.files import NOW_MS, ClientFile, open_client_file

ALICE: Final = Address(b"A" * 32)
CAROL: Final = Address(b"C" * 32)
SESSION: Final = SessionId(b"s" * 32)
NEXT_SESSION: Final = SessionId(b"t" * 32)


def letter(
    number: int,
    *,
    sequence: int | None = None,
    sender: Address = ALICE,
    session: SessionId = SESSION,
    kind: Kind = Kind.TEXT,
    body: bytes | None = None,
    sealed: bytes | None = None,
    written_at_ms: int = NOW_MS - 500,
    ttl_s: int = 86_400,
    ttl_type: TtlType = TtlType.ABSOLUTE,
) -> DecryptedMessage:
    """Message `number`, which is also its place in the session unless told otherwise."""
    return DecryptedMessage(
        header=TtlHeader(created_at_ms=written_at_ms, ttl_s=ttl_s, ttl_type=ttl_type),
        message_id=message(number),
        sender=sender,
        session_id=session,
        sequence=number if sequence is None else sequence,
        kind=kind,
        body=b"body %d" % number if body is None else body,
        payload_hash=hash_sealed_bytes(sealed or session + b"sealed %d" % number),
        envelope_bytes=1_696,
    )


def receive(file: ClientFile, opened: DecryptedMessage, *, now_ms: int = NOW_MS) -> Verdict | None:
    return file.inbox.receive(opened, server_timestamp_ms=NOW_MS - 100, now_ms=now_ms).verdict


def shown(file: ClientFile, *, after: int = 0, now_ms: int = NOW_MS) -> list[InboxEntry]:
    return [entry for _, entry in file.inbox.released(after=after, limit=10_000, now_ms=now_ms)]


def bodies(file: ClientFile, *, after: int = 0, now_ms: int = NOW_MS) -> list[bytes]:
    return [entry.plaintext for entry in shown(file, after=after, now_ms=now_ms)]


def reopened(file: ClientFile) -> ClientFile:
    file.database.close()
    return open_client_file(file.database.path, seed=2)
