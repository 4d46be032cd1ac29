"""The frame family of the mesh: every class with its number, encoding and bounded decoding (NETWORK 3)."""

from collections.abc import Mapping
from typing import Final

from restante.model.errors import Malformed
from restante.wire.field_checks import MAX_U32, check_number
from restante.wire.frames.codec import Unknown, frame_head
from restante.wire.frames.mesh_directory import (
    Authenticate,
    DescriptorTaken,
    DirectoryPage,
    FindNode,
    Nodes,
    PublishDescriptor,
    SyncDirectory,
)
from restante.wire.frames.mesh_reading import Fetch, FetchDone, Listed, MeshDelete, MeshDeleted, MeshSubscribe
from restante.wire.frames.mesh_replication import Block, Have, HaveDone, HaveList, Want, WantDone
from restante.wire.frames.mesh_storage import (
    GetRecord,
    MeshPut,
    MeshRoom,
    MeshStored,
    NotResponsible,
    PutRecord,
    Record,
    WrongBucket,
)
from restante.wire.frames.mesh_types import MESH_TYPES, MeshFrameType

__all__ = ["MESH_CLASSES", "MESH_TYPES", "MeshFrame", "MeshFrameType", "decode_mesh_body", "encode_mesh_frame"]

MeshFrame = (
    Authenticate
    | FindNode
    | Nodes
    | SyncDirectory
    | DirectoryPage
    | PublishDescriptor
    | DescriptorTaken
    | MeshPut
    | MeshRoom
    | MeshStored
    | WrongBucket
    | NotResponsible
    | PutRecord
    | GetRecord
    | Record
    | Fetch
    | MeshSubscribe
    | Listed
    | FetchDone
    | MeshDelete
    | MeshDeleted
    | Have
    | HaveList
    | HaveDone
    | Want
    | Block
    | WantDone
)

_ALL: Final[tuple[type[MeshFrame], ...]] = (
    *(Authenticate, FindNode, Nodes, SyncDirectory, DirectoryPage, PublishDescriptor, DescriptorTaken),
    *(MeshPut, MeshRoom, MeshStored, WrongBucket, NotResponsible, PutRecord, GetRecord, Record),
    *(Fetch, MeshSubscribe, Listed, FetchDone, MeshDelete, MeshDeleted),
    *(Have, HaveList, HaveDone, Want, Block, WantDone),
)
MESH_CLASSES: Final[Mapping[int, type[MeshFrame]]] = {each.TYPE: each for each in _ALL}


def encode_mesh_frame(frame: MeshFrame, request: int) -> bytes:
    check_number(request, "request", high=MAX_U32)
    body = frame.body()
    return frame_head(frame.TYPE, request, len(body)) + body


def decode_mesh_body(number: int, body: bytes) -> MeshFrame | Unknown:
    """Return the frame, from what `FrameSplitter` gave; `Unknown` for a type that the mesh does not have."""
    frame_class = MESH_CLASSES.get(number)
    if frame_class is None:
        return Unknown(number=number)
    if len(body) not in frame_class.SIZES:
        sizes = frame_class.SIZES
        raise Malformed(f"the body of {frame_class.TYPE.name} must have {sizes[0]}..{sizes[-1]} bytes")
    return frame_class.from_body(body)
