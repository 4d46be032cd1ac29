"""Frames by which nodes and clients exchange descriptors (SPEC 7.1): one class a frame, with the layout of its body."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from restante.model.ids import NODE_KEY_BYTES, NodeKey, exactly, node_key
from restante.model.node_descriptor import IPV4_BYTES, IPV6_BYTES, Endpoint
from restante.wire.descriptors import MAX_DESCRIPTOR_BYTES, MIN_DESCRIPTOR_BYTES, decode_endpoint, encode_endpoint
from restante.wire.field_checks import SIGNATURE_BYTES, check_number, check_time
from restante.wire.frames.greeting import CHALLENGE_BYTES, CHANNEL_BYTES
from restante.wire.frames.mesh_bodies import ContactsBody
from restante.wire.frames.mesh_types import (
    HASH_BYTES,
    MAX_CONTACTS,
    MeshFrameType,
    check_descriptors,
    check_flag,
    join_descriptors,
    split_descriptors,
)
from restante.wire.frames.types import only

MAX_PAGE: Final = 256
"""Descriptors in a page of the directory: at most 131 KB."""
MAX_CURSOR: Final = 0xFFFF_FFFF_FFFF_FFFF
TARGET_BYTES: Final = 32
_FIND_NODE: Final = struct.Struct(f">{TARGET_BYTES}sB")
_TIME: Final = struct.Struct(">Q")
_SYNC: Final = struct.Struct(f">Q{HASH_BYTES}s")
_PAGE: Final = struct.Struct(f">QB{HASH_BYTES}s")
_LISTED_DESCRIPTOR_BYTES: Final = 2 + MAX_DESCRIPTOR_BYTES
_ENDPOINT_BYTES: Final = (1 + IPV4_BYTES + 2, 1 + IPV6_BYTES + 2)
_AUTHENTICATE_DOMAIN: Final = b"restante-node-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticate:
    """Dialling node: this is my node key; signed over `authenticate_to_sign`. Clients never send it."""

    TYPE: ClassVar = MeshFrameType.AUTHENTICATE
    SIZES: ClassVar = only(NODE_KEY_BYTES + SIGNATURE_BYTES)
    node_key: NodeKey
    signature: bytes

    def __post_init__(self) -> None:
        node_key(self.node_key)
        exactly(self.signature, SIGNATURE_BYTES, "signature")

    def body(self) -> bytes:
        return self.node_key + self.signature

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(node_key=NodeKey(raw[:NODE_KEY_BYTES]), signature=raw[NODE_KEY_BYTES:])


def authenticate_to_sign(*, challenge: bytes, connection: bytes, server: NodeKey, dialler: NodeKey) -> bytes:
    """Return the bytes that a dialling node signs. They name both nodes and this connection, so nothing can be
    relayed to a third node."""
    exactly(challenge, CHALLENGE_BYTES, "challenge")
    exactly(connection, CHANNEL_BYTES, "connection binding")
    return _AUTHENTICATE_DOMAIN + challenge + connection + node_key(server) + node_key(dialler)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindNode:
    """Send the descriptors that you know closest to this target."""

    TYPE: ClassVar = MeshFrameType.FIND_NODE
    SIZES: ClassVar = only(_FIND_NODE.size)
    target: bytes
    want: int

    def __post_init__(self) -> None:
        exactly(self.target, TARGET_BYTES, "target")
        check_number(self.want, "number of wanted descriptors", low=1, high=MAX_CONTACTS)

    def body(self) -> bytes:
        return _FIND_NODE.pack(self.target, self.want)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        target, want = _FIND_NODE.unpack(raw)
        return cls(target=target, want=want)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes(ContactsBody):
    """Answer to FIND_NODE."""

    TYPE: ClassVar = MeshFrameType.NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncDirectory:
    """Send your directory from this cursor on, unless your digest equals mine. The first cursor is 0."""

    TYPE: ClassVar = MeshFrameType.SYNC_DIRECTORY
    SIZES: ClassVar = only(_SYNC.size)
    cursor: int
    digest: bytes

    def __post_init__(self) -> None:
        check_number(self.cursor, "cursor", high=MAX_CURSOR)
        exactly(self.digest, HASH_BYTES, "digest")

    def body(self) -> bytes:
        return _SYNC.pack(self.cursor, self.digest)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        cursor, digest = _SYNC.unpack(raw)
        return cls(cursor=cursor, digest=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPage:
    """Answer to SYNC_DIRECTORY: descriptors, whether this page is the last, and the cursor of the next one."""

    TYPE: ClassVar = MeshFrameType.DIRECTORY_PAGE
    SIZES: ClassVar = range(_PAGE.size, _PAGE.size + MAX_PAGE * _LISTED_DESCRIPTOR_BYTES + 1)
    next_cursor: int
    is_last: bool
    digest: bytes
    descriptors: tuple[bytes, ...]

    def __post_init__(self) -> None:
        check_number(self.next_cursor, "cursor", high=MAX_CURSOR)
        exactly(self.digest, HASH_BYTES, "digest")
        check_descriptors(self.descriptors, most=MAX_PAGE)

    def body(self) -> bytes:
        return _PAGE.pack(self.next_cursor, self.is_last, self.digest) + join_descriptors(self.descriptors)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        next_cursor, last, digest = _PAGE.unpack_from(raw)
        return cls(
            next_cursor=next_cursor,
            is_last=check_flag(last, "the last-page flag"),
            digest=digest,
            descriptors=split_descriptors(raw[_PAGE.size :], most=MAX_PAGE),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishDescriptor:
    """Keep this descriptor and pass it on if it is new to you."""

    TYPE: ClassVar = MeshFrameType.PUBLISH_DESCRIPTOR
    SIZES: ClassVar = range(MIN_DESCRIPTOR_BYTES, MAX_DESCRIPTOR_BYTES + 1)
    descriptor: bytes

    def __post_init__(self) -> None:
        check_descriptors((self.descriptor,), most=1)

    def body(self) -> bytes:
        return self.descriptor

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        return cls(descriptor=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorTaken:
    """Answer to PUBLISH_DESCRIPTOR: the node's time, and the endpoint from which it sees the publisher."""

    TYPE: ClassVar = MeshFrameType.DESCRIPTOR_TAKEN
    SIZES: ClassVar = range(
        _TIME.size + _ENDPOINT_BYTES[0],
        _TIME.size + _ENDPOINT_BYTES[1] + 1,
        _ENDPOINT_BYTES[1] - _ENDPOINT_BYTES[0],
    )
    time_ms: int
    observed: Endpoint

    def __post_init__(self) -> None:
        check_time(self.time_ms, "time")
        encode_endpoint(self.observed)

    def body(self) -> bytes:
        return _TIME.pack(self.time_ms) + encode_endpoint(self.observed)

    @classmethod
    def from_body(cls, raw: bytes) -> Self:
        (time_ms,) = _TIME.unpack_from(raw)
        return cls(time_ms=time_ms, observed=decode_endpoint(raw[_TIME.size :]))
