"""TLS 1.3 by pinned keys: how both ends are set up, who the other end is, and what only this connection knows.

Knows nothing of frames. Certificates are signed by a key everybody has (crypto/node_certificate): it is the comparison
of keys that authenticates, and it happens before any other byte is sent.
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
    """A node's side. Clients stay anonymous here; who may read is proven inside (SPEC 6.5)."""
    context = _only_1_3(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.num_tickets = 0  # a resumed session would share its secrets with an earlier connection
    certificate = node_certificate(identity)
    with _as_file(certificate.chain + certificate.secret_key) as path:
        context.load_cert_chain(path)
    return context


@cache
def client_context() -> ssl.SSLContext:
    context = _only_1_3(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.check_hostname = False  # a node is its key, whatever its host is called
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority_certificate().decode("ascii"))
    return context


def peer_key(encryption: ssl.SSLObject) -> NodeKey | None:
    """The key the other end has proven in the handshake; None when it has shown none."""
    certificate = encryption.getpeercert(binary_form=True)
    try:
        return None if certificate is None else certified_key(certificate)
    except Malformed:
        return None


def channel_of(encryption: ssl.SSLObject) -> bytes:
    """32 bytes that both ends of this connection have and no other connection has (docs/decisions/0013)."""
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
    """`ssl` reads keys from files alone: one that only this process can open, in memory where there is such a thing."""
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
