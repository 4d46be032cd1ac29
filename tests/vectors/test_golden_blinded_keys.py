"""blinded_key.json, derived with plain integers."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from restante.crypto.blinded_keys import BlindedSigner, blind_address
from restante.model.ids import Address, BlindedKey, NodeKey
from restante.wire.mesh_keys import blinded_relay_inbox_key, mesh_inbox_key, record_key_of
from support.mesh.known_keys import KnownIdentity
from support.spec.clauses import clause
from support.wire.golden_vectors import cases

ALICE = KnownIdentity("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")


def raw(vector: dict[str, Any], field: str) -> bytes:
    return bytes.fromhex(vector[field])


@clause("7.2")
@pytest.mark.parametrize("vector", cases("blinded_key"))
def test_blinded_keys_and_their_signatures_keep_their_bytes(vector: dict[str, Any]) -> None:
    place, secret = raw(vector, "place"), raw(vector, "access_secret")
    signer = BlindedSigner(ALICE, place=place, access_secret=secret)
    blinded = blind_address(Address(raw(vector, "address")), place=place, access_secret=secret)
    assert blinded.hex() == signer.public_key.hex() == vector["blinded_key"]
    signature = signer.sign(raw(vector, "message"), entropy=raw(vector, "entropy"))
    assert signature.hex() == vector["signature"]
    Ed25519PublicKey.from_public_bytes(blinded).verify(signature, raw(vector, "message"))


@clause("7.2", "7.6")
@pytest.mark.parametrize("vector", cases("blinded_key"))
def test_keys_at_nodes_keep_their_bytes(vector: dict[str, Any]) -> None:
    blinded, place = BlindedKey(raw(vector, "blinded_key")), raw(vector, "place")
    if len(place) == 8:
        assert mesh_inbox_key(blinded, int.from_bytes(place, "big")).hex() == vector["inbox_key"]
    else:
        assert blinded_relay_inbox_key(blinded, NodeKey(place)).hex() == vector["inbox_key"]
    assert record_key_of(blinded).hex() == vector["record_key"]
