"""Messages of the inbox as rows: waiting for their turn, or handed on; bodies sealed at rest (SPEC 8.6, 9.6)."""

from dataclasses import dataclass
from typing import Final

from restante.core.letters import Opened
from restante.crypto.at_rest import NONCE_BYTES, StorageSeal
from restante.model.ids import MessageId
from restante.model.kinds import Kind, TtlType
from restante.policy.ttl import expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.database import Database, load_queries

_SQL: Final = load_queries("inbox")
_ADD_MESSAGE: Final = _SQL["add_message"]
_NONCES_AT_ONCE: Final = 64


@dataclass(slots=True, kw_only=True)
class TakenMessage:
    """One message on its way to the application, opened; from the arrival at hand or from among the waiting."""

    arrival: int
    message_id: MessageId
    kind: Kind
    ttl_type: TtlType
    ttl_s: int
    created_at_ms: int
    received_at_ms: int
    server_timestamp_ms: int
    body: bytes


def taken_from(opened: Opened, *, arrival: int, server_timestamp_ms: int, now_ms: int) -> TakenMessage:
    letter, header = opened.letter, opened.header
    return TakenMessage(
        arrival=arrival,
        message_id=letter.message_id,
        kind=letter.kind,
        ttl_type=header.ttl_type,
        ttl_s=header.ttl_s,
        created_at_ms=header.created_at_ms,
        received_at_ms=now_ms,
        server_timestamp_ms=server_timestamp_ms,
        body=letter.body,
    )


class MessageTable:
    """`session` is the number of the session's row."""

    def __init__(self, database: Database, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._seal = seal
        self._entropy = entropy
        self._nonces: list[bytes] = []

    def hold(self, session: int, sequence: int, message: TakenMessage, *, is_void: bool) -> None:
        """Keep it until its turn comes; of a void one only the number."""
        self._database.rows(
            _SQL["add_waiting"],
            message.arrival,
            session,
            sequence,
            message.message_id,
            message.kind,
            message.ttl_type,
            message.ttl_s,
            message.created_at_ms,
            message.received_at_ms,
            message.server_timestamp_ms,
            None if is_void else self._sealed(message),
        )

    def discard(self, session: int, sequence: int) -> None:
        self._database.rows(_SQL["discard_waiting"], session, sequence)

    def take(self, session: int, sequence: int) -> TakenMessage:
        """A message whose turn has come, no longer among the waiting."""
        [row] = self._database.rows(_SQL["take_waiting"], session, sequence)
        arrival, message_id, kind, ttl_type, ttl_s, created_at_ms, received_at_ms, server_timestamp_ms, sealed = row
        return TakenMessage(
            arrival=arrival,
            message_id=MessageId(message_id),
            kind=Kind(kind),
            ttl_type=TtlType(ttl_type),
            ttl_s=ttl_s,
            created_at_ms=created_at_ms,
            received_at_ms=received_at_ms,
            server_timestamp_ms=server_timestamp_ms,
            body=self._seal.open(sealed, context=message_id),
        )

    def add(self, place: int, session: int, sequence: int, message: TakenMessage, *, is_late: bool) -> None:
        """Hand it on."""
        expires_at_ms = expiry_ms(
            ttl_type=message.ttl_type, created_at_ms=message.created_at_ms, ttl_s=message.ttl_s, first_read_at_ms=None
        )
        self._database.defer(
            _ADD_MESSAGE,
            (
                place,
                message.arrival,
                session,
                sequence,
                message.message_id,
                message.kind,
                int(is_late),
                message.ttl_type,
                message.ttl_s,
                message.received_at_ms,
                message.server_timestamp_ms,
                expires_at_ms,
                self._sealed(message),
            ),
        )

    def _sealed(self, message: TakenMessage) -> bytes:
        if not self._nonces:
            # Many at once: a call into the system costs as much as the sealing.
            drawn = self._entropy.draw(NONCE_BYTES * _NONCES_AT_ONCE)
            self._nonces = [drawn[at : at + NONCE_BYTES] for at in range(0, len(drawn), NONCE_BYTES)]
        return self._seal.close(message.body, nonce=self._nonces.pop(), context=message.message_id)
