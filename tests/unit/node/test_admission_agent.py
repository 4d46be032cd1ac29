"""Whatever goes wrong while a node is dialled, its candidate has been dialled (SPEC 7.1)."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

from restante.model.node_descriptor import NodeDescriptor
from restante.model.sources import Source
from restante.node.mesh.admission_agent import AdmissionAgent
from restante.node.mesh.peer_pool import PeerPool
from support.mesh.nodes import node
from support.spec.clauses import clause
from support.system.wait_until import LIMIT_S


@clause("7.1", "7.12")
async def test_an_error_that_nobody_expected_ends_the_dial_as_a_failed_one() -> None:
    tasks: set[asyncio.Task[None]] = set()

    async def check(_node: NodeDescriptor) -> None:
        raise ValueError("not an error of dialling")

    def start(work: Coroutine[Any, Any, None]) -> None:
        tasks.add(asyncio.create_task(work))

    candidate = node(1)
    pool = cast("PeerPool", SimpleNamespace(check=check))
    agent = AdmissionAgent(
        pool, is_private=True, own_endpoints=lambda: candidate.endpoints, start=start, on_admitted=lambda _node: None
    )
    agent.offer(candidate, Source(b"net"))
    async with asyncio.timeout(LIMIT_S):
        await agent.checked([candidate.node_id])
    assert agent.dials_failed == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
