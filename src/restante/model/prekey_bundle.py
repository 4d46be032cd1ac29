"""The public values that start a session without both sides being online (SPEC 8.1, 8.3).

The responder publishes a `PrekeyBundle`; the initiator answers it with an `Opening`. Neither contains a secret. wire/
encodes them, crypto/ uses them.
"""

from dataclasses import dataclass

from restante.model.contact_card import ContactCard


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimePrekey:
    """An X25519 key that one handshake may use."""

    prekey_id: int
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeyBundle:
    """The keys that a handshake starts from. `prekey` and `kem_prekey` are generated together and share id and age."""

    card: ContactCard
    issued_at_ms: int
    prekey_id: int
    prekey_created_at_ms: int
    prekey: bytes
    kem_prekey: bytes
    one_time: tuple[OneTimePrekey, ...]
    signature: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The initiator's half of a handshake. Every message carries it until the first answer arrives.

    `one_time_id` is None if the bundle had no one-time prekey left, or if the session was opened to recover another
    one (SPEC 8.7).
    """

    card: ContactCard
    ephemeral_key: bytes
    prekey_id: int
    kem_ciphertext: bytes
    one_time_id: int | None = None
