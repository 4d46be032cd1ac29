"""A bootstrap node whose answer nobody expected says nothing about the own address, and ends no join (SPEC 7.1)."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from restante.core.mesh_proofs.descriptors import sign_descriptor
from restante.crypto.identity import Identity
from restante.node.mesh.directory_agent import DirectoryAgent
from restante.runtime.transport.mesh_connection import MeshConnection
from support.mesh.nodes import node
from support.spec.clauses import clause


@clause("7.1", "7.12")
async def test_an_error_that_nobody_expected_is_no_word_about_the_own_address() -> None:
    async def publish(_descriptor: bytes) -> None:
        raise ValueError("not an error of a connection")

    identity = Identity(b"i" * 32)
    own = sign_descriptor(replace(node(1), node_key=identity.node_key), identity)
    agent = cast("DirectoryAgent", SimpleNamespace(view=SimpleNamespace(own=own)))
    assert await DirectoryAgent._where(agent, cast("MeshConnection", SimpleNamespace(publish=publish))) is None
