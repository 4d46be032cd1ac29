"""Make and read node certificates, which carry a node's key in TLS. The certificate proves nothing; the pinned key
does.

Python's `ssl` accepts only certificates signed by a trusted authority. Ours is a key published in this file, so anyone
can sign with it. The client compares the key in the certificate with the node key it wants to reach
(docs/decisions/0013). Equal keys give equal bytes.
"""

import datetime as dt
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from restante.crypto.identity import Identity
from restante.model.errors import Malformed
from restante.model.ids import NodeKey, node_key

PUBLISHED_AUTHORITY_SEED: Final = hashlib.sha256(b"restante: a certificate authority that anybody may use").digest()
_SINCE: Final = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_UNTIL: Final = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
_SERIAL_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCertificate:
    """Certificate and private key in PEM, as a TLS server loads them. Never log it."""

    chain: bytes
    secret_key: bytes

    def __repr__(self) -> str:
        return "NodeCertificate(…)"


def node_certificate(identity: Identity) -> NodeCertificate:
    certificate = _certificate(identity.signing_key.public_key(), "restante node", is_authority=False)
    return NodeCertificate(
        chain=certificate.public_bytes(Encoding.PEM),
        secret_key=identity.signing_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


@cache
def authority_certificate() -> bytes:
    """Return the authority's certificate in PEM, which both ends trust."""
    return _certificate(_authority().public_key(), "restante", is_authority=True).public_bytes(Encoding.PEM)


def certified_key(certificate: bytes) -> NodeKey:
    """Return the Ed25519 key in a certificate (DER). Raise `Malformed` if there is none."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        raise Malformed("not a certificate") from None
    if not isinstance(key, Ed25519PublicKey):
        raise Malformed("the certificate is not for an Ed25519 key")
    return node_key(key.public_bytes_raw())


@cache
def _authority() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(PUBLISHED_AUTHORITY_SEED)


def _certificate(key: Ed25519PublicKey, name: str, *, is_authority: bool) -> x509.Certificate:
    serial = hashlib.sha256(key.public_bytes_raw()).digest()[:_SERIAL_BYTES]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("restante"))
        .public_key(key)
        .serial_number(int.from_bytes(serial, "big") >> 1 or 1)
        .not_valid_before(_SINCE)
        .not_valid_after(_UNTIL)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(_authority().public_key()),
            critical=False,
        )
        .add_extension(_usage(is_authority=is_authority), critical=True)
    )
    return builder.sign(_authority(), None)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
