"""What opens a session between two people who are never online together (SPEC 8.1, 8.3).

The recipient publishes a `PrekeyBundle`; whoever writes first answers it with an `Opening`. Both are public values: no
secret is in either. Their bytes are known in wire, their meaning in crypto.
"""

from dataclasses import dataclass

from restante.model.contact_card import ContactCard
from restante.model.ids import SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimePrekey:
    """An X25519 key that one handshake may use."""

    prekey_id: int
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrekeyBundle:
    """The keys a handshake starts from. `prekey` and `kem_prekey` are made together and share id and age."""

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
    """The writer's half of a handshake. It goes with every message until the first answer is there.

    `one_time_id` is None when the bundle had no one-time prekey left; `continues` names the session that this one takes
    the place of after a reset (SPEC 8.7).
    """

    card: ContactCard
    ephemeral_key: bytes
    prekey_id: int
    kem_ciphertext: bytes
    one_time_id: int | None = None
    continues: SessionId | None = None
