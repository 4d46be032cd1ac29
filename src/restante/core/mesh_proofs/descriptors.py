"""Sign and verify node descriptors and family certificates (SPEC 7.1)."""

from dataclasses import replace

from restante.crypto.identity import Identity, is_signed_by
from restante.model.error_codes import Code
from restante.model.errors import RemoteProtocolError
from restante.model.ids import NodeKey
from restante.model.node_descriptor import FamilyCertificate, NodeDescriptor
from restante.wire.descriptors import decode_descriptor, descriptor_to_sign, family_to_sign


def admit_to_family(operator: Identity, node: NodeKey) -> FamilyCertificate:
    """Return the operator's certificate for one of its nodes."""
    return FamilyCertificate(bytes(operator.address), operator.sign(family_to_sign(node)))


def sign_descriptor(unsigned: NodeDescriptor, node: Identity) -> NodeDescriptor:
    return replace(unsigned, signature=node.sign(descriptor_to_sign(unsigned)))


def verify_descriptor(raw: bytes) -> NodeDescriptor:
    """Return the descriptor. Raise unless its node signed it and its operator, if it names one, signed the node."""
    descriptor = decode_descriptor(raw)
    if not is_signed_by(descriptor.node_key, descriptor.signature, descriptor_to_sign(descriptor)):
        raise RemoteProtocolError("the descriptor is not signed by its node", code=Code.AUTHENTICATION_FAILED)
    certificate = descriptor.certificate
    if certificate is not None and not is_signed_by(
        certificate.operator_key, certificate.signature, family_to_sign(descriptor.node_key)
    ):
        raise RemoteProtocolError(
            "the family certificate is not signed by its operator", code=Code.AUTHENTICATION_FAILED
        )
    return descriptor
