"""A mesh of real node processes: files rot, clocks are wrong. `test_mesh_clients` has the rest, with real clients."""

import asyncio
from functools import partial
from pathlib import Path

import apsw
import pytest

from restante.cli.node.local_network import LocalNode
from restante.model.journal import JournalKind
from restante.runtime.testing_clock import MADE_FOR_TESTS
from support.mesh.mesh_driver import MeshDriver, inbox_of_this_hour
from support.mesh.node_processes import kill, mesh
from support.mesh.running_nodes import OpenInbox
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak
from support.system.wait_until import until

SIZES = [(6, 48), (12, 4_000)]


async def send(driver: MeshDriver, inbox: OpenInbox, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, 16):
        some = range(begin, min(begin + 16, numbers.stop))
        sent = await asyncio.gather(*[driver.store(inbox, b"message %05d" % number) for number in some])
        assert all(sent)


async def receive(inbox: OpenInbox, *nodes: LocalNode) -> tuple[MeshDriver, list[bytes]]:
    driver = MeshDriver()
    await driver.learn(*[each.place for each in nodes])
    read = await driver.read(inbox)
    await driver.close()
    return driver, read


@clause("6.3")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak(SIZES, now=0))
async def test_bits_flipped_at_two_holders_are_found_journaled_and_repaired(
    tmp_path: Path, count: int, messages: int
) -> None:
    with mesh(tmp_path, count) as processes:
        processes.start(*processes.nodes)
        processes.settle(*processes.nodes)
        inbox, driver = inbox_of_this_hour(), MeshDriver()
        await driver.learn(*[each.place for each in processes.nodes[:3]])
        await send(driver, inbox, range(messages))
        await driver.close()
        holders = [each for each in processes.nodes if processes.stats(each)["copies"] == messages]
        assert len(holders) >= 5
        resting, running = holders[:2]
        kill(resting)
        assert _flip_bits(resting.directory.database) == _flip_bits(running.directory.database) == 10
        processes.start(resting)
        for node in (resting, running):
            until(partial(processes.is_repaired, node, messages))
            assert (JournalKind.DAMAGED, None) in processes.kinds(node)
        _, read = await receive(inbox, *processes.nodes[:3])
        assert sorted(read) == [b"message %05d" % number for number in range(messages)]


def _flip_bits(path: Path) -> int:
    """Flip one bit in the sealed bytes of ten blobs, as a disk would: nothing else in the file changes."""
    file = apsw.Connection(str(path))
    file.set_busy_timeout(10_000)
    ids = [int(str(number)) for (number,) in file.execute("SELECT id FROM mesh_blob ORDER BY id LIMIT 10").fetchall()]
    for number in ids:
        with file.blob_open("main", "mesh_blob", "envelope", number, True) as blob:
            blob.seek(-1, 2)
            [last] = blob.read(1)
            blob.seek(-1, 2)
            blob.write(bytes([last ^ 1]))
    file.close()
    return len(ids)


@clause("7.11", "7.10")
@pytest.mark.parametrize(("count", "messages"), first_now_rest_in_soak(SIZES, now=0))
async def test_nodes_whose_clocks_are_two_hours_off_store_in_the_right_hour(
    tmp_path: Path, count: int, messages: int
) -> None:
    with mesh(tmp_path, count) as processes:
        for node, hours in zip(processes.nodes[-2:], (2, -2), strict=True):
            (node.directory.path / MADE_FOR_TESTS).touch()
            text = node.directory.config.read_text("utf-8")
            offset = f"\n[testing]\nclock_offset_ms = {hours * 3_600_000}\n"
            node.directory.config.write_text(text + offset, "utf-8")
        right = processes.nodes[:-2]
        processes.start(*right)
        processes.settle(*right)
        processes.start(*processes.nodes[-2:])
        processes.settle(*processes.nodes)
        inbox, driver = inbox_of_this_hour(), MeshDriver()
        assert await driver.learn(*[each.place for each in processes.nodes]) == count
        await send(driver, inbox, range(messages))
        await driver.close()
        _, read = await receive(inbox, *right[:3])
        assert sorted(read) == [b"message %05d" % number for number in range(messages)]
        for node in processes.nodes[-2:]:
            status = node.look()
            assert status is not None
            assert "wrong by about" in status["mesh"]["health"]["clock"]
