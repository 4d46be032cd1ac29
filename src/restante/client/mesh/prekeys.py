"""Prekey records in the mesh: publishes the own base bundle and places, and fetches those of others (SPEC 7.6).

With them a contact can be added by its address alone. One-time prekeys are not in it: named relays serve those.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from restante.client.mesh.connections import Use
from restante.client.mesh.directory import MeshDirectory, MeshUnknown
from restante.core.mesh_proofs.published_keys import PublishedKeys, decode_published, encode_published
from restante.core.mesh_proofs.records import open_record, sign_record
from restante.core.store_quorum import WRITE_QUORUM
from restante.crypto.blinded_keys import SIGNING_ENTROPY_BYTES, blind_address, in_period
from restante.crypto.identity import Identity
from restante.crypto.record_seal import RECORD_NONCE_BYTES
from restante.model.error_codes import Code
from restante.model.errors import RestanteError
from restante.model.ids import Address
from restante.model.node_descriptor import NodeDescriptor
from restante.policy.failures import Failure
from restante.policy.mesh.placement import COPIES
from restante.policy.mesh.time_buckets import periods_to_ask, periods_to_publish
from restante.ports.entropy import Entropy
from restante.ports.relay_connection import AttemptFailed
from restante.wire.frames.mesh_storage import NotResponsible, Record
from restante.wire.mesh_keys import record_key_of
from restante.wire.prekey_records import decode_record, encode_record

Dated = tuple[int, PublishedKeys]
"""Published keys with the time of their issue."""
NONE_SAID_BY: Final = 4
"""So many nodes must say that there is no record before a recipient counts as not found (E005)."""


class PrekeyRecords:
    def __init__(self, directory: MeshDirectory, *, entropy: Entropy) -> None:
        self._directory = directory
        self._entropy = entropy

    async def publish(self, owner: Identity, published: PublishedKeys) -> int:
        """Publish for the current and the next period; return how many nodes hold the current record.

        Raises `AttemptFailed` if fewer than two nodes took one of them.
        """
        content = encode_published(published)
        holders = []
        for period in periods_to_publish(self._directory.now_ms()):
            record = sign_record(
                owner,
                content,
                period=period,
                now_ms=self._directory.now_ms(),
                nonce=self._entropy.draw(RECORD_NONCE_BYTES),
                entropy=self._entropy.draw(SIGNING_ENTROPY_BYTES),
            )
            nodes = await self._directory.find(record_key_of(record.blinded), COPIES)
            answers = await asyncio.gather(*(self._put(node, encode_record(record)) for node in nodes))
            holders.append(sum(answers))
            if holders[-1] < min(WRITE_QUORUM, len(nodes)):
                raise AttemptFailed(
                    f"{holders[-1]} nodes took the prekey record", failure=Failure.INSUFFICIENT_REPLICATION
                )
        return holders[0]

    async def fetch(self, owner: Address) -> PublishedKeys:
        """Return the newest keys that `owner` published.

        Raises E005 if four nodes say that there are none, E003 if too few answer to know.
        """
        newest: Dated | None = None
        absent = asked = 0
        for period in periods_to_ask(self._directory.now_ms()):
            key = record_key_of(blind_address(owner, place=in_period(period)))
            nodes = await self._directory.find(key)
            asked = max(asked, len(nodes[:COPIES]))
            # Nodes further out are asked only if the five have nothing: the mesh was smaller when it was published.
            for part in (nodes[:COPIES], nodes[COPIES:]):
                answers = await asyncio.gather(*(self._get(node, key) for node in part))
                absent = max(absent, sum(raw == b"" for raw in answers))
                newest = _newest(newest, answers, owner, period)
                if newest is not None:
                    break
        if newest is not None:
            return newest[1]
        if absent >= min(NONE_SAID_BY, asked):
            raise RestanteError("no keys are published in the mesh for this address", code=Code.RECIPIENT_NOT_FOUND)
        raise MeshUnknown("too few nodes of the mesh answer to know the keys of this address")

    async def _put(self, node: NodeDescriptor, record: bytes) -> bool:
        try:
            connection = await self._directory.connections.get(node, Use.RECORDS)
            answer: Record | NotResponsible = await connection.put_record(record)
        except AttemptFailed:
            return False
        return isinstance(answer, Record) and answer.record == record

    async def _get(self, node: NodeDescriptor, key: bytes) -> bytes | None:
        """Return the record, no bytes if the node says that it has none, None if it does not answer."""
        try:
            connection = await self._directory.connections.get(node, Use.RECORDS)
            return await connection.get_record(key) or b""
        except AttemptFailed:
            return None


def _newest(newest: Dated | None, answers: Sequence[bytes | None], owner: Address, period: int) -> Dated | None:
    """Return the newest issue among the answers of nodes; an older one never replaces it."""
    for raw in answers:
        try:
            found = None if not raw else _opened(raw, owner, period)
        except RestanteError:
            continue  # a node sent what its owner did not sign
        if found is not None and (newest is None or found[0] > newest[0]):
            newest = found
    return newest


def _opened(raw: bytes, owner: Address, period: int) -> Dated:
    return decode_record(raw).issued_at_ms, decode_published(open_record(raw, owner=owner, period=period), owner=owner)
