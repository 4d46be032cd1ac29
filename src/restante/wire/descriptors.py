"""Encode and decode node descriptors and the family certificates in them (SPEC 7.1). core/mesh_proofs signs them.

Layout: version u8, roles u8, node key 32, onion key 32, issued u64, expires u64, number of endpoints u8, each as kind
u8 (4 or 6), address 4 or 16, port u16, then number of certificates u8 (0 or 1), operator key 32 and signature 64, then
the node's signature 64 over everything before it.
"""

import struct
from typing import Final

from restante.model.errors import Malformed, TooLarge
from restante.model.ids import NODE_KEY_BYTES, NodeKey, exactly, node_key
from restante.model.node_descriptor import (
    IPV4_BYTES,
    IPV6_BYTES,
    Endpoint,
    FamilyCertificate,
    NodeDescriptor,
    Role,
)
from restante.wire.field_checks import SIGNATURE_BYTES, check_number, check_time, signature_to_encode

DESCRIPTOR_VERSION: Final = 1
MAX_DESCRIPTOR_BYTES: Final = 512
MAX_ENDPOINTS: Final = 8
ONION_KEY_BYTES: Final = 32
_MAX_PORT: Final = 0xFFFF
_ALL_ROLES: Final = Role.MAILBOX | Role.STORAGE | Role.HOP
_HEAD: Final = struct.Struct(f">BB{NODE_KEY_BYTES}s{ONION_KEY_BYTES}sQQB")
_CERTIFICATE: Final = struct.Struct(f">{NODE_KEY_BYTES}s{SIGNATURE_BYTES}s")
_PORT: Final = struct.Struct(">H")
_IP_BYTES: Final = {4: IPV4_BYTES, 6: IPV6_BYTES}
_KINDS: Final = {IPV4_BYTES: 4, IPV6_BYTES: 6}
MIN_DESCRIPTOR_BYTES: Final = _HEAD.size + 1 + SIGNATURE_BYTES
_DESCRIPTOR_DOMAIN: Final = b"restante-descriptor-v1"
_FAMILY_DOMAIN: Final = b"restante-family-v1"


def family_to_sign(node: NodeKey) -> bytes:
    """Return the bytes that an operator signs to admit a node to its family."""
    return _FAMILY_DOMAIN + node_key(node)


def descriptor_to_sign(descriptor: NodeDescriptor) -> bytes:
    """Return the bytes that the node's signature covers."""
    return _DESCRIPTOR_DOMAIN + _unsigned(descriptor)


def encode_descriptor(descriptor: NodeDescriptor) -> bytes:
    return _unsigned(descriptor) + signature_to_encode(descriptor.signature, "a descriptor")


def decode_descriptor(raw: bytes) -> NodeDescriptor:
    if len(raw) > MAX_DESCRIPTOR_BYTES:
        raise TooLarge("a descriptor", size_bytes=len(raw), limit_bytes=MAX_DESCRIPTOR_BYTES)
    if len(raw) < MIN_DESCRIPTOR_BYTES:
        raise Malformed(f"a descriptor has at least {MIN_DESCRIPTOR_BYTES} bytes, not {len(raw)}")
    version, roles, key, onion_key, issued_at_ms, expires_at_ms, count = _HEAD.unpack_from(raw)
    if version != DESCRIPTOR_VERSION:
        raise Malformed(f"only version {DESCRIPTOR_VERSION} of a descriptor is known, not {version}")
    if roles & ~_ALL_ROLES:
        raise Malformed("a descriptor names roles that this version does not know")
    body = raw[_HEAD.size : -SIGNATURE_BYTES]
    endpoints, rest = _take_endpoints(body, count)
    descriptor = NodeDescriptor(
        node_key=NodeKey(key),
        onion_key=onion_key,
        endpoints=endpoints,
        roles=Role(roles),
        issued_at_ms=issued_at_ms,
        expires_at_ms=expires_at_ms,
        certificate=_take_certificate(rest),
        signature=raw[-SIGNATURE_BYTES:],
    )
    _check(descriptor)
    return descriptor


def encode_endpoint(endpoint: Endpoint) -> bytes:
    kind = _KINDS.get(len(endpoint.ip))
    if kind is None:
        raise Malformed(f"an IP address has {IPV4_BYTES} or {IPV6_BYTES} bytes, not {len(endpoint.ip)}")
    check_number(endpoint.port, "port", low=1, high=_MAX_PORT)
    return bytes([kind]) + endpoint.ip + _PORT.pack(endpoint.port)


def decode_endpoint(raw: bytes) -> Endpoint:
    """Return the only endpoint in `raw`."""
    (endpoint,), rest = _take_endpoints(raw, 1)
    exactly(rest, 0, "what follows an endpoint")
    return endpoint


def _take_endpoints(raw: bytes, count: int) -> tuple[tuple[Endpoint, ...], bytes]:
    """Return `count` endpoints from the start of `raw`, and the rest."""
    check_number(count, "number of endpoints", high=MAX_ENDPOINTS)
    endpoints: list[Endpoint] = []
    start = 0
    for _ in range(count):
        size = _IP_BYTES.get(raw[start] if start < len(raw) else 0)
        if size is None or start + 1 + size + _PORT.size > len(raw):
            raise Malformed("an endpoint is cut off or neither IPv4 nor IPv6")
        end = start + 1 + size
        (port,) = _PORT.unpack_from(raw, end)
        check_number(port, "port", low=1, high=_MAX_PORT)
        endpoints.append(Endpoint(raw[start + 1 : end], port))
        start = end + _PORT.size
    return tuple(endpoints), raw[start:]


def _take_certificate(raw: bytes) -> FamilyCertificate | None:
    if raw == b"\x00":
        return None
    if raw[:1] != b"\x01":
        raise Malformed("a descriptor has no certificate or one")
    exactly(raw, 1 + _CERTIFICATE.size, "a family certificate")
    return FamilyCertificate(*_CERTIFICATE.unpack_from(raw, 1))


def _unsigned(descriptor: NodeDescriptor) -> bytes:
    _check(descriptor)
    head = _HEAD.pack(
        DESCRIPTOR_VERSION,
        descriptor.roles,
        descriptor.node_key,
        descriptor.onion_key,
        descriptor.issued_at_ms,
        descriptor.expires_at_ms,
        len(descriptor.endpoints),
    )
    endpoints = b"".join(map(encode_endpoint, descriptor.endpoints))
    certificate = descriptor.certificate
    if certificate is None:
        return head + endpoints + b"\x00"
    return head + endpoints + b"\x01" + _CERTIFICATE.pack(certificate.operator_key, certificate.signature)


def _check(descriptor: NodeDescriptor) -> None:
    node_key(descriptor.node_key)
    exactly(descriptor.onion_key, ONION_KEY_BYTES, "onion key")
    check_number(len(descriptor.endpoints), "number of endpoints", high=MAX_ENDPOINTS)
    if any(each.is_mapped for each in descriptor.endpoints):
        raise Malformed("an endpoint of a descriptor is an IPv4 address written as IPv6")
    check_time(descriptor.expires_at_ms, "expires_at")
    # Equal times mean that the node leaves: it publishes a descriptor that expires now (SPEC 7.9).
    check_number(descriptor.issued_at_ms, "issued_at", high=descriptor.expires_at_ms)
    if descriptor.certificate is not None:
        exactly(descriptor.certificate.operator_key, NODE_KEY_BYTES, "operator key")
        exactly(descriptor.certificate.signature, SIGNATURE_BYTES, "signature of the operator")
