"""mesh.json: the mesh's frames with descriptors, records and receipts in them. Every frame has request number 7."""

from typing import Any

import pytest

from restante.core.mesh_proofs.descriptors import verify_descriptor
from restante.core.mesh_proofs.reading import is_done_by, matches_list
from restante.core.mesh_proofs.receipts import is_receipt_for
from restante.wire.descriptors import encode_descriptor
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.frames.codec import FrameSplitter
from restante.wire.frames.mesh import MESH_CLASSES, MESH_TYPES, MeshFrameType, decode_mesh_body, encode_mesh_frame
from restante.wire.frames.mesh_reading import FetchDone
from restante.wire.frames.mesh_storage import MeshStored
from restante.wire.merkle import address_hash, stored_leaf
from support.mesh.frames import HASHES, KEY, NODE, NOW_MS, example_descriptor, examples
from support.spec.clauses import clause
from support.wire.golden_vectors import cases, load


def test_there_is_a_vector_for_every_type_of_mesh_frame() -> None:
    assert [vector["name"] for vector in load("mesh")] == [each.name for each in MeshFrameType]
    assert set(MESH_CLASSES) == set(MeshFrameType) <= set(MESH_TYPES)


@pytest.mark.parametrize("vector", cases("mesh"))
def test_mesh_frames_keep_their_bytes(vector: dict[str, Any]) -> None:
    frame = examples()[MeshFrameType[vector["name"]]]
    assert encode_mesh_frame(frame, 7).hex() == vector["hex"]
    ((number, request, body),) = FrameSplitter().feed(bytes.fromhex(vector["hex"]))
    assert (request, decode_mesh_body(number, body)) == (7, frame)


@clause("7.1")
def test_a_descriptor_and_its_certificate_keep_their_signatures() -> None:
    assert verify_descriptor(encode_descriptor(example_descriptor())) == example_descriptor()


@clause("7.8", "10.2")
def test_a_storage_receipt_keeps_its_leaf_path_and_signature() -> None:
    stored = examples()[MeshFrameType.MESH_STORED]
    assert isinstance(stored, MeshStored)
    leaf = stored_leaf(address_hash(KEY, NOW_MS), hash_sealed_bytes(b"sealed"))
    assert is_receipt_for(stored.receipt, node=NODE.node_key, leaf=leaf)


@clause("7.4")
def test_the_end_of_an_answer_keeps_its_root_and_signature() -> None:
    done = examples()[MeshFrameType.FETCH_DONE]
    assert isinstance(done, FetchDone)
    assert is_done_by(done, NODE.node_key)
    assert matches_list(done.answers[0], HASHES)
