"""Publish and verify prekey records (SPEC 7.6)."""

from dataclasses import replace

from restante.crypto.blinded_keys import BlindedSigner, blind_address, in_period
from restante.crypto.identity import Identity, is_signed_by
from restante.crypto.record_seal import seal_record, unseal_record
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import Address
from restante.wire.prekey_records import PrekeyRecord, decode_record, encode_record, record_to_sign


def sign_record(
    owner: Identity, bundle: bytes, *, period: int, now_ms: int, nonce: bytes, entropy: bytes
) -> PrekeyRecord:
    """Return the record of an encoded bundle for one period."""
    signer = BlindedSigner(owner, place=in_period(period))
    sealed = seal_record(bundle, owner=owner.address, blinded=signer.public_key, nonce=nonce)
    unsigned = PrekeyRecord(blinded=signer.public_key, period=period, issued_at_ms=now_ms, sealed=sealed)
    return replace(unsigned, signature=signer.sign(record_to_sign(unsigned), entropy=entropy))


def verify_record(raw: bytes) -> PrekeyRecord:
    """Return the record. Raise unless its blinded key signed it. A node can check no more than that."""
    record = decode_record(raw)
    if not is_signed_by(record.blinded, record.signature, record_to_sign(record)):
        raise RemoteProtocolError("the prekey record is not signed by its key", code=Code.AUTHENTICATION_FAILED)
    return record


def open_record(raw: bytes, *, owner: Address, period: int) -> bytes:
    """Return the encoded bundle of `owner`. Raise if the record is of another owner or period."""
    record = verify_record(raw)
    blinded = blind_address(owner, place=in_period(period))
    if record.blinded != blinded or record.period != period:
        raise RemoteProtocolError("the prekey record belongs to another address", code=Code.AUTHENTICATION_FAILED)
    return unseal_record(record.sealed, owner=owner, blinded=blinded)


def newer_record(held: bytes | None, offered: bytes) -> bytes:
    """Return which of two verified records of one key to keep: the newest issue, so a rollback has no effect."""
    if held is None:
        return encode_record(verify_record(offered))
    kept, other = decode_record(held), verify_record(offered)
    return offered if other.issued_at_ms > kept.issued_at_ms else held
