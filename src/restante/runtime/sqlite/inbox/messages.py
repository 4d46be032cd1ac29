"""Messages of the inbox as rows: waiting for their turn, or handed on; bodies sealed at rest (SPEC 8.6, 9.6)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from restante.core.decrypted_messages import DecryptedMessage
from restante.crypto.storage_seal import NONCE_BYTES, StorageSeal
from restante.model.ids import MessageId
from restante.model.kinds import Kind, TtlType
from restante.policy.ttl import expiry_ms
from restante.ports.entropy import Entropy
from restante.runtime.sqlite.file.database import Database, load_queries
from restante.runtime.sqlite.file.statement_batching import Column

_SQL: Final = load_queries("inbox/store")
_ADD_MESSAGE: Final = _SQL["add_message"]
_NONCES_AT_ONCE: Final = 64


class TakenMessage(NamedTuple):
    """One message on its way to the application, opened; from the arrival at hand or from among the waiting.

    A tuple: one is made for every message.
    """

    arrival: int
    message_id: MessageId
    kind: Kind
    ttl_type: TtlType
    ttl_s: int
    created_at_ms: int
    received_at_ms: int
    server_timestamp_ms: int
    body: bytes


ReleasedMessage = tuple[int, int, int, TakenMessage, bool]
"""The place of a message, its session's row, its number there, itself, and whether later ones were shown before it."""


def taken_from(opened: DecryptedMessage, *, arrival: int, server_timestamp_ms: int, now_ms: int) -> TakenMessage:
    (created_at_ms, ttl_s, ttl_type), message_id, _, _, _, kind, body, _, _ = opened
    return TakenMessage(arrival, message_id, kind, ttl_type, ttl_s, created_at_ms, now_ms, server_timestamp_ms, body)


class MessageTable:
    """`session` is the number of the session's row."""

    def __init__(self, database: Database, seal: StorageSeal, entropy: Entropy) -> None:
        self._database = database
        self._seal = seal
        self._entropy = entropy
        self._nonces: list[bytes] = []

    def hold(self, session: int, sequence: int, message: TakenMessage, *, is_placeholder: bool) -> None:
        """Buffer the message until its turn; of a placeholder only the number."""
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
            None if is_placeholder else self._sealed(message),
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
            body=self._seal.unseal(sealed, context=message_id),
        )

    def add(self, messages: Sequence[ReleasedMessage]) -> None:
        """Hand them on. All at once: sealing them in one run was measured faster than with work in between."""
        sealed = [self._sealed(message) for _, _, _, message, _ in messages]
        self._database.defer_many(_ADD_MESSAGE, list(map(_row, messages, sealed)))

    def _sealed(self, message: TakenMessage) -> bytes:
        if not self._nonces:
            # Many at once: a call into the system costs as much as the sealing.
            drawn = self._entropy.draw(NONCE_BYTES * _NONCES_AT_ONCE)
            self._nonces = [drawn[at : at + NONCE_BYTES] for at in range(0, len(drawn), NONCE_BYTES)]
        return self._seal.seal(message.body, nonce=self._nonces.pop(), context=message.message_id)


def _row(handed_on: ReleasedMessage, sealed: bytes) -> tuple[Column, ...]:
    place, session, sequence, message, is_late = handed_on
    arrival, message_id, kind, ttl_type, ttl_s, created_at_ms, received_at_ms, server_timestamp_ms, _ = message
    return (
        place,
        arrival,
        session,
        sequence,
        message_id,
        kind,
        int(is_late),
        ttl_type,
        ttl_s,
        received_at_ms,
        server_timestamp_ms,
        expiry_ms(ttl_type=ttl_type, created_at_ms=created_at_ms, ttl_s=ttl_s, first_read_at_ms=None),
        sealed,
    )
