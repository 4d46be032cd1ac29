"""crypto/node_certificate: a key in the form TLS wants it, always the same bytes."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from restante.crypto.identity import Identity
from restante.crypto.node_certificate import authority_certificate, certified_key, node_certificate
from restante.model.errors import Malformed

NODE = Identity(b"n" * 32)


def parsed(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_the_key_in_a_certificate_is_the_nodes() -> None:
    der = parsed(node_certificate(NODE).chain).public_bytes(Encoding.DER)
    assert certified_key(der) == NODE.node_key


def test_equal_keys_give_equal_certificates_and_others_do_not() -> None:
    assert node_certificate(NODE) == node_certificate(Identity(b"n" * 32))
    assert node_certificate(NODE).chain != node_certificate(Identity(b"m" * 32)).chain


def test_it_is_signed_by_the_published_authority() -> None:
    authority = parsed(authority_certificate())
    parsed(node_certificate(NODE).chain).verify_directly_issued_by(authority)
    authority.verify_directly_issued_by(authority)


def test_it_names_nobody_and_prints_nothing() -> None:
    certificate = node_certificate(NODE)
    assert parsed(certificate.chain).subject.rfc4514_string() == "CN=restante node"
    assert repr(certificate) == "NodeCertificate(…)"


@pytest.mark.parametrize("raw", [b"", b"no certificate", bytes(500)])
def test_what_is_no_certificate_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed, match="not a certificate"):
        certified_key(raw)
