"""What an acknowledgement that means "on disk" costs: our relay over TLS against its own store, Redis and NATS.

The node runs in a process of its own, the client in this one; messages have 1 KiB. Rate limits and quotas are lifted.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bench import relay_baselines
from bench.measure import Measured, processor_s, ratio_line, take_turns
from bench.relay_node import LIFTED, NODE
from restante.core.inboxes.relay_inbox import OwnInbox, relay_inbox_key
from restante.core.mailbox import Keep, check_put
from restante.crypto.identity import Identity
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.file.journal import Journal
from restante.runtime.sqlite.mailbox.store import SqliteMailbox
from restante.runtime.system import SystemClock, SystemEntropy
from restante.runtime.transport.relay_connection import TlsRelayConnection
from restante.wire.envelope import Envelope, encode_envelope

ROUNDS: Final = 7
IN_FLIGHT: Final = 256
PUTS: Final = 10_240  # in one round
ALONE: Final = 300
FLUSHED: Final = 20_000
OFFLINE: Final = 10_000
SENDERS: Final = 4  # tasks that share the puts in flight
SEALED_BYTES: Final = 1_024
RESTLESS: Final = 2.0
HOUR_MS: Final = 3_600_000
WORKING_DIRECTORY: Final = Path(".run")  # the system's place for temporary files may be no disk at all
LOOPBACK: Final = "127.0.0.1"
READERS: Final = [Identity((b"reader %d" % number).ljust(32)) for number in range(50)]
BOB: Final = Identity(b"bob".ljust(32))


def envelope(number: int, reader: Identity) -> bytes:
    expires_at_ms = (SystemClock().now_ms() // HOUR_MS + 48) * HOUR_MS
    sealed = number.to_bytes(8, "big").ljust(SEALED_BYTES, b"x")
    return encode_envelope(
        Envelope(inbox_key=relay_inbox_key(reader.address, NODE.node_key), expires_at_ms=expires_at_ms, sealed=sealed)
    )


class Node:
    """The process under measurement."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.relay_node", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill_and_restart(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._start()

    def stop(self) -> None:
        self._process.communicate()  # its standard input ends

    def processor_s(self) -> float:
        """What the process has used so far, all its threads."""
        return processor_s(self._process.pid)

    async def link(self) -> TlsRelayConnection:
        return await TlsRelayConnection.connect(LOOPBACK, self.port, node=NODE.node_key)


class Ours:
    """One link to a node, and the ways it is used."""

    def __init__(self, node: Node, runner: asyncio.Runner) -> None:
        self._run = runner.run
        self._link = self._run(node.link())
        self._envelopes = [envelope(number, READERS[number % len(READERS)]) for number in range(PUTS)]

    def put_together(self) -> int:
        self._run(self._put_together())
        return PUTS

    def put_alone(self) -> int:
        self._run(self._put_in_turn(self._envelopes[:ALONE]))
        return ALONE

    def close(self) -> None:
        self._run(self._link.close())

    async def _put_together(self) -> None:
        """`IN_FLIGHT` at any time: each task keeps its share under way and waits for the oldest."""
        shares = [self._envelopes[number::SENDERS] for number in range(SENDERS)]
        await asyncio.gather(*(self._keep_under_way(share, IN_FLIGHT // SENDERS) for share in shares))

    async def _keep_under_way(self, envelopes: Sequence[bytes], window: int) -> None:
        for start in range(0, len(envelopes), window):
            outcomes = await self._link.put_many(envelopes[start : start + window])
            for outcome in outcomes:
                if isinstance(outcome, AttemptFailed):
                    raise outcome

    async def _put_in_turn(self, envelopes: Sequence[bytes]) -> None:
        for raw in envelopes:
            await self._link.put(raw)


class Metered:
    """A contender whose use of the processor is counted, here and in the node."""

    def __init__(self, work: Callable[[], int], node: Node) -> None:
        self._work = work
        self._node = node
        self._operations = 0
        self._client_s = self._node_s = 0.0

    def __call__(self) -> int:
        client_s, node_s = time.process_time(), self._node.processor_s()
        done = self._work()
        self._client_s += time.process_time() - client_s
        self._node_s += self._node.processor_s() - node_s
        self._operations += done
        return done

    def __str__(self) -> str:
        client, node = (1e6 * used_s / self._operations for used_s in (self._client_s, self._node_s))
        return f"processor time of each: client {client:.0f} µs, node {node:.0f} µs"


def raw_group_commit(folder: Path) -> Callable[[], int]:
    """The same store in this process: the same puts, `IN_FLIGHT` a commit, and nothing else."""
    database = Database(folder / "raw.db", schema="node")
    store = SqliteMailbox(database, Journal(database, SystemEntropy()), tag_secret=NODE.tag_secret)
    now_ms = SystemClock().now_ms()
    keeps: list[Keep] = []
    for number in range(PUTS):
        keep = check_put(envelope(number, READERS[number % len(READERS)]), quota=LIFTED.mailbox, now_ms=now_ms)
        assert isinstance(keep, Keep)
        keeps.append(keep)

    def work() -> int:
        for start in range(0, PUTS, IN_FLIGHT):
            store.put_all(keeps[start : start + IN_FLIGHT], quota=LIFTED.mailbox, now_ms=now_ms)
        return PUTS

    return work


@contextmanager
def fdatasync_loop(folder: Path) -> Iterator[Callable[[], int]]:
    """What the disk itself can do, one after the other."""
    with (folder / "synced").open("wb", buffering=0) as file:

        def work() -> int:
            for _ in range(ALONE):
                file.write(bytes(SEALED_BYTES))
                os.fdatasync(file.fileno())
            return ALONE

        yield work


def compare_puts(folder: Path, runner: asyncio.Runner) -> None:
    with ExitStack() as stack:
        node = Node(folder)
        stack.callback(node.stop)
        ours = Ours(node, runner)
        stack.callback(ours.close)
        put_together, put_alone = Metered(ours.put_together, node), Metered(ours.put_alone, node)
        contenders: dict[str, Callable[[], int]] = {
            "raw group commit": raw_group_commit(folder),
            f"put, {IN_FLIGHT} in flight": put_together,
            "fdatasync": stack.enter_context(fdatasync_loop(folder)),
            "put, one in flight": put_alone,
        }
        payload = bytes(SEALED_BYTES)
        for name, server, make in (
            ("Redis Streams", "redis-server", relay_baselines.redis),
            ("NATS JetStream", "nats-server", relay_baselines.nats),
        ):
            if not relay_baselines.is_installed(server):
                print(f"  {server} is not installed: {relay_baselines.HOW_TO_INSTALL[server]}")
                continue
            place = folder / server
            place.mkdir()
            store = stack.enter_context(make(place, payload))
            contenders[name] = partial(store, PUTS // 2)
        rates = _settled(contenders)
    together = rates[f"put, {IN_FLIGHT} in flight"]
    print(" durable put over TLS")
    _judge(together, rates["raw group commit"], bar=0.6)
    print(f"    {put_together}")
    print(ratio_line(rates["put, one in flight"], rates["fdatasync"]))
    print(f"    {put_alone}")
    if "Redis Streams" in rates:
        print(f"  Redis: appendfsync=always, window of {relay_baselines.WINDOW}, without TLS")
        _judge(together, rates["Redis Streams"], bar=1)
    if "NATS JetStream" in rates:
        _judge_nats(together, rates["NATS JetStream"])


def _judge_nats(ours: Measured, peer: Measured) -> None:
    if relay_baselines.syncs_always():
        _judge(ours, peer, bar=5)
        return
    print("  NATS: this nats-server cannot sync always, it answers before the disk has anything; no bar applies")
    print(f"  for one that can: {relay_baselines.HOW_TO_INSTALL['nats-server']}")
    print(ratio_line(ours, peer))


def measure_flush(folder: Path, runner: asyncio.Runner) -> None:
    node = Node(folder)
    runner.run(_fill(node, FLUSHED))

    def flush() -> int:
        return len(runner.run(_drain(node, FLUSHED, deletes=False)))

    rate = _settled({"flush": flush})["flush"]
    print(" flush over TLS, nothing deleted")
    print(f"  {rate.name:<34} {rate.per_second:>12,.0f}/s   {_verdict(rate.per_second >= 60_000)} (at least 60,000)")
    node.stop()


def come_back_from_a_kill(folder: Path, runner: asyncio.Runner) -> None:
    node = Node(folder)
    stored = runner.run(_fill(node, OFFLINE))
    started_s = time.perf_counter()
    node.kill_and_restart()
    up_s = time.perf_counter() - started_s
    drained = runner.run(_drain(node, OFFLINE, deletes=True))
    took_s = time.perf_counter() - started_s
    lost = len(set(stored) - set(drained))
    left = len(runner.run(_left_over(node)))
    print(f" offline: {OFFLINE:,} stored, the node killed (SIGKILL) and restarted")
    in_order = "in order" if drained == stored else "NOT in order"
    print(f"  {len(drained):,} drained {in_order}, {lost} lost, {left} left: {_verdict(not lost and not left)}")
    print(f"  {took_s:.2f} s from the kill to the last delete, {up_s:.2f} s of them until the node was up again")
    node.stop()


async def _fill(node: Node, count: int) -> list[bytes]:
    link = await node.link()
    envelopes = [envelope(number, BOB) for number in range(count)]
    outcomes = await link.put_many(envelopes)
    await link.close()
    failed = [outcome for outcome in outcomes if isinstance(outcome, AttemptFailed)]
    if failed:
        raise failed[0]
    return envelopes


async def _drain(node: Node, count: int, *, deletes: bool) -> list[bytes]:
    link = await node.link()
    await link.subscribe(OwnInbox(BOB))
    got: list[bytes] = []
    while len(got) < count:
        blobs = await link.next_blobs()
        got += [blob.envelope for blob in blobs]
        if deletes:
            for start in range(0, len(blobs), 1_024):
                await link.delete_many([blob.blob_id for blob in blobs[start : start + 1_024]])
    await link.close()
    return got


async def _left_over(node: Node) -> list[bytes]:
    link = await node.link()
    await link.subscribe(OwnInbox(BOB))
    await link.ping()
    waiting = asyncio.ensure_future(link.next_blobs())
    await asyncio.wait([waiting], timeout=0.2)
    waiting.cancel()
    await link.close()
    return [blob.envelope for blob in waiting.result()] if waiting.done() and not waiting.cancelled() else []


def _settled(contenders: dict[str, Callable[[], int]]) -> dict[str, Measured]:
    """Measured after a round that does not count."""
    take_turns(contenders, rounds=1)
    rates = take_turns(contenders, rounds=ROUNDS)
    restless = [f"{rate.name} {rate.spread:.1f} x" for rate in rates.values() if rate.spread > RESTLESS]
    if restless:
        print(f" restless machine, do not trust these ratios; fastest round over slowest: {', '.join(restless)}")
    return rates


def _judge(ours: Measured, peer: Measured, *, bar: float) -> None:
    ratio = ours.per_second / peer.per_second
    print(f"{ratio_line(ours, peer)}   {_verdict(ratio >= bar)} (at least {bar:g})")


def _verdict(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def main(arguments: Sequence[str] = ()) -> None:
    argparse.ArgumentParser(prog="python -m bench.relay", description="The relay against its peers.").parse_args(
        arguments
    )
    WORKING_DIRECTORY.mkdir(exist_ok=True)
    print("relay, 1 KiB, medians of rounds that take turns")
    print(f"  load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    for measure in (compare_puts, measure_flush, come_back_from_a_kill):
        with tempfile.TemporaryDirectory(dir=WORKING_DIRECTORY) as folder, asyncio.Runner() as runner:
            measure(Path(folder), runner)


if __name__ == "__main__":
    main(sys.argv[1:])
