"""TLS 1.3 by pinned keys: contexts for both ends, the peer's key, and the channel binding of a connection.

Certificates are signed by a published key (crypto/node_certificate), which proves nothing. The client authenticates the
node by comparing keys, before it sends any other byte.
"""

import hashlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from restante.crypto.identity import Identity
from restante.crypto.node_certificate import authority_certificate, certified_key, node_certificate
from restante.model.errors import EnvironmentUnsuitable, Malformed
from restante.model.ids import NodeKey


def server_context(identity: Identity) -> ssl.SSLContext:
    """Return a node's context. Clients are anonymous to TLS; a subscription proves its inbox later (SPEC 6.5)."""
    context = _only_1_3(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.num_tickets = 0  # a resumed TLS session would share secrets with an earlier connection
    certificate = node_certificate(identity)
    with _as_file(certificate.chain + certificate.secret_key) as path:
        context.load_cert_chain(path)
    return context


@cache
def client_context() -> ssl.SSLContext:
    context = _only_1_3(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False  # the key identifies a node, not its host name
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority_certificate().decode("ascii"))
    return context


def peer_key(encryption: ssl.SSLObject) -> NodeKey | None:
    """Return the key the peer proved in the handshake; None if it sent no certificate of ours."""
    certificate = encryption.getpeercert(binary_form=True)
    try:
        return None if certificate is None else certified_key(certificate)
    except Malformed:
        return None


def channel_of(encryption: ssl.SSLObject) -> bytes:
    """Return 32 bytes that both ends of this connection share with no other connection (docs/decisions/0013)."""
    finished = encryption.get_channel_binding("tls-unique")
    if not finished:
        raise EnvironmentUnsuitable("this build of Python gives no channel binding; proofs cannot be bound")
    return hashlib.sha256(finished).digest()


def _only_1_3(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Provide a file, in memory where the system can, since `ssl` loads keys from files only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("restante", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
