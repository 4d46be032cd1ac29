"""The public keys of an identity. They suffice to write to it and do not help to read its mail."""

from dataclasses import dataclass

from restante.model.ids import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactCard:
    """An address, its long-term keys, and the address's signature over them (SPEC 8.1).

    Envelopes are sealed to `sealing_key`; `agreement_key` is the X25519 identity key of handshakes.
    """

    address: Address
    sealing_key: bytes
    agreement_key: bytes
    signature: bytes
