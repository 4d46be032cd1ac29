"""What the nodes of a mesh in memory see of those who read: the inbox keys that each connection proved."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from restante.core.inboxes.mesh_inbox import bucket_keys
from restante.model.ids import Address, InboxKey
from restante.testing.memory_mesh import MemoryMeshConnection
from restante.wire.frames.mesh_reading import FetchEntry, MeshDelete
from restante.wire.mesh_keys import mesh_inbox_key


class Watching:
    """All nodes write down what is asked of them, by connection: what they could learn together."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.proved: defaultdict[MemoryMeshConnection, set[InboxKey]] = defaultdict(set)
        self.put_on: set[MemoryMeshConnection] = set()
        answer, want, delete, put = (getattr(MemoryMeshConnection, name) for name in ("_list", "want", "delete", "put"))

        def listed(node: MemoryMeshConnection, entries: Sequence[FetchEntry], *more: Any) -> Any:
            self.proved[node] |= {mesh_inbox_key(each.blinded, each.bucket) for each in entries}
            return answer(node, entries, *more)

        def wanted(node: MemoryMeshConnection, key: InboxKey, *more: Any) -> Any:
            self.proved[node].add(key)
            return want(node, key, *more)

        def deleted(node: MemoryMeshConnection, signed: MeshDelete) -> Any:
            self.proved[node].add(mesh_inbox_key(signed.blinded, signed.bucket))
            return delete(node, signed)

        def was_put(node: MemoryMeshConnection, *more: Any) -> Any:
            self.put_on.add(node)
            return put(node, *more)

        for name, seen in (("_list", listed), ("want", wanted), ("delete", deleted), ("put", was_put)):
            patch.setattr(MemoryMeshConnection, name, seen)


def keys_of(address: Address, secret: bytes, buckets: range) -> set[InboxKey]:
    return {bucket_keys(address, each, secret).inbox_key for each in buckets}
