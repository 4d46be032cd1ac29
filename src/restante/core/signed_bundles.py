"""Sign and verify prekey bundles (SPEC 7.6, 8.1)."""

from dataclasses import replace

from restante.crypto.identity import Identity, is_signed_by, verify_card
from restante.crypto.prekeys import PrekeyStore, public_bundle, usable_bundle
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import Address
from restante.model.prekey_bundle import PrekeyBundle
from restante.wire.prekey_bundle import bundle_to_sign, decode_bundle, encode_bundle


def sign_bundle(prekeys: PrekeyStore, owner: Identity, *, now_ms: int) -> bytes:
    """Return the encoded, signed bundle."""
    unsigned = public_bundle(prekeys, owner.card, now_ms=now_ms)
    return encode_bundle(replace(unsigned, signature=owner.sign(bundle_to_sign(unsigned))))


def verify_bundle(raw: bytes, *, owner: Address, now_ms: int) -> PrekeyBundle:
    """Return the bundle. Raise unless its owner signed it and it is fresh enough to be used."""
    bundle = decode_bundle(raw)
    if bundle.card.address != owner or not is_signed_by(owner, bundle.signature, bundle_to_sign(bundle)):
        raise RemoteProtocolError("the prekey bundle is not signed by its owner", code=Code.AUTHENTICATION_FAILED)
    verify_card(bundle.card)
    return usable_bundle(bundle, now_ms=now_ms)
