"""The times that a node signs never go back, so that an honest node signs no evidence against itself."""

from pathlib import Path

import pytest

from restante.core.mesh_proofs.receipts import evidence_of
from restante.core.mesh_proofs.withholding import SignedList, is_withheld
from restante.core.replication import serving
from restante.crypto.identity import Identity
from restante.model.node_descriptor import Role
from restante.node.mesh.view import MeshView
from restante.policy.completion import STORED_TTL_MS
from restante.policy.mesh.network_time import NetworkTime
from restante.testing.deterministic import FakeClock
from restante.wire.envelope import hash_sealed_bytes
from restante.wire.storage_receipts import StorageReceipt
from support.mesh.running_nodes import HOUR_MS, NOW_MS, inbox_now, running_node
from support.spec.clauses import clause


@clause("13.5", "7.8", "7.11")
async def test_a_list_signed_before_a_put_is_no_evidence_although_network_time_steps_back(tmp_path: Path) -> None:
    clock, body = FakeClock(NOW_MS), b"mail"
    async with running_node(tmp_path, 1, clock=clock) as node:
        view = node.service.view
        view.serving = serving.Serving(phase=serving.Phase.SERVING)
        inbox = inbox_now(clock)
        reader, sender = await node.dial(), await node.dial()
        answer = await reader.subscribe([inbox.entry(reader, subscribes=True)])
        view.time = NetworkTime(offset_ms=-500)  # another median of its peers' clocks
        envelope = inbox.envelope(body)
        receipt = await sender.put(inbox.signer.public_key, inbox.bucket, envelope)
        assert isinstance(receipt, StorageReceipt)
        listed = SignedList(node.identity.node_key, answer.done, inbox.key, answer.listed[inbox.key])
        proof = listed.prove(hash_sealed_bytes(body), expires_at_ms=(inbox.bucket + 48) * HOUR_MS)
        assert not is_withheld(evidence_of(envelope, receipt), proof, hash_sealed_bytes(body))


@clause("7.11", "13.5")
@pytest.mark.parametrize(("wrong_by_ms", "stays"), [(STORED_TTL_MS, True), (STORED_TTL_MS + 1, False)])
def test_a_network_time_that_was_wrong_by_more_than_mail_is_stored_for_is_not_signed_for_ever(
    wrong_by_ms: int, *, stays: bool
) -> None:
    view = MeshView(Identity(b"v" * 32), roles=Role.STORAGE, clock=FakeClock(NOW_MS))
    view.time = NetworkTime(offset_ms=wrong_by_ms)
    assert view.stamp_ms() == NOW_MS + wrong_by_ms
    view.time = NetworkTime()
    assert view.stamp_ms() == (NOW_MS + wrong_by_ms if stays else NOW_MS)
