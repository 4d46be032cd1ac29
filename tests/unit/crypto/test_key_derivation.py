"""crypto/key_derivation: the ratchet's own spelling of HMAC and HKDF is the standard one."""

import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from restante.crypto.key_derivation import chain_step, root_step

keys = st.binary(min_size=32, max_size=32)


@given(keys)
def test_a_chain_step_is_two_hmacs(chain_key: bytes) -> None:
    assert chain_step(chain_key) == (
        hmac.digest(chain_key, b"\x01", "sha256"),
        hmac.digest(chain_key, b"\x02", "sha256"),
    )


@given(keys, keys)
def test_a_root_step_is_hkdf_with_the_root_key_as_salt(root_key: bytes, agreed: bytes) -> None:
    derived = HKDF(hashes.SHA256(), 64, root_key, b"restante-ratchet-root-v1").derive(agreed)
    assert root_step(root_key, agreed) == (derived[:32], derived[32:])
