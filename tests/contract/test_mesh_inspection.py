"""What `restante mesh` says of a mesh whose nodes are known and do not answer."""

from pathlib import Path

import pytest

from restante.client.mesh.directory import MeshUnknown
from restante.client.mesh.inspection import closest
from restante.testing.virtual_time import run_in_virtual_time
from support.mesh.memory_world import World, until_connected

KEY = bytes(32)


def test_a_lookup_that_no_node_answers_is_an_error_and_no_empty_list(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def scenario() -> None:
        async with world.client("bob") as bob:
            await until_connected(bob)
            async with bob.mesh_host() as host:
                assert len(await closest(host.directory, KEY)) == len(world.mesh.nodes)
            for node in world.mesh.nodes:
                node.is_replaced = True
            async with bob.mesh_host() as host:
                with pytest.raises(MeshUnknown, match="none of the known mesh nodes answers"):
                    await closest(host.directory, KEY)
                assert host.directory.valid(), "they are known from the file"

    run_in_virtual_time(scenario(), world.clock)
