"""A client whose guards are dead, over real TLS: it says so soon, and does not dial them without end."""

import asyncio
import contextlib
import time

import pytest

from restante.client.circuits.circuit import CircuitFailed
from restante.client.circuits.pool import TRIES, CircuitPool
from restante.core.circuit.pool import STORES
from restante.policy.circuits.build_backoff import FREE_ROUNDS
from restante.policy.circuits.silence import silent_after_s
from support.circuit.network import MemoryGuards, Network, network, pool_of
from support.spec.clauses import clause

REQUESTS = 40
INBOX = "public inbox"


async def stop_guards(made: Network, guards: MemoryGuards) -> None:
    for each in guards.state.guards:
        await made.node(each.node_id).stop()


async def refused(pool: CircuitPool, use: str) -> str:
    with pytest.raises(CircuitFailed) as failed:
        await pool.acquire(use)
    return str(failed.value)


@clause("11.3", "11.4")
async def test_many_requests_at_once_fail_soon_with_the_reason_and_few_builds() -> None:
    guards = MemoryGuards()
    async with network(8) as made, pool_of(made, guards) as pool:
        (await pool.acquire(INBOX)).close()
        await stop_guards(made, guards)
        began_s = time.monotonic()
        reasons = await asyncio.gather(*[refused(pool, f"{INBOX} {number % 3}") for number in range(REQUESTS)])
        assert all(each.startswith("the guard ") and each.endswith(" can't be reached") for each in reasons)
        assert pool.failures.total() <= 2 * FREE_ROUNDS * TRIES + 2 * TRIES < REQUESTS, (
            "each request dialled all guards again"
        )
        assert time.monotonic() - began_s < REQUESTS * TRIES / 10, "as long as so many builds take"


@clause("11.3")
async def test_a_message_is_tried_although_reading_waits_for_its_next_round() -> None:
    guards = MemoryGuards()
    async with network(8) as made, pool_of(made, guards) as pool:
        (await pool.acquire(INBOX)).close()
        await stop_guards(made, guards)
        for _ in range(2 * FREE_ROUNDS):
            await refused(pool, INBOX)
        before = pool.failures.total()
        await refused(pool, INBOX)
        assert pool.failures.total() == before
        await refused(pool, STORES)
        assert pool.failures.total() == before + TRIES


@clause("11.3", "11.4")
async def test_silent_guards_are_waited_for_at_the_same_time() -> None:
    guards = MemoryGuards()
    async with network(8) as made, pool_of(made, guards) as pool, contextlib.AsyncExitStack() as stack:
        (await pool.acquire(INBOX)).close()
        for each in guards.state.guards:
            host, port = made.node(each.node_id).server.sockets[0].getsockname()
            await made.node(each.node_id).stop()
            await stack.enter_async_context(await asyncio.start_server(_say_nothing, host, port))
        began_s = time.monotonic()
        await asyncio.gather(*[refused(pool, f"{INBOX} {number}") for number in range(3)])
        assert time.monotonic() - began_s < 2 * silent_after_s(pool.times.timeout_s)
        before_s = time.monotonic()
        await refused(pool, INBOX)
        assert time.monotonic() - before_s < 1, "the reason is known"


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer):
        await reader.read()  # until the client gives up and closes


@clause("11.1", "11.4")
async def test_a_guard_that_this_client_could_not_reach_is_no_other_hop_of_its_circuits() -> None:
    guards = MemoryGuards()
    async with network(6) as made, pool_of(made, guards) as pool:
        (await pool.acquire(INBOX)).close()
        await made.node(guards.state.guards[0].node_id).stop()
        for number in range(12):
            await pool.acquire(f"{INBOX} {number}")
        assert set(pool.failures) <= {"guard"}, "this client dialled it, and no hop did for it"
