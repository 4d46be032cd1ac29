"""carol, dave and erin at a named relay: 2,000 messages over a bad network, a dead letter, an expired message."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from restante.cli.demo.chapters import Chapter, Stage, as_sent, percentiles, shown_latency, shown_ms
from restante.cli.demo.people import Arrived, Person, are_in_order, online, receive, send_numbered, settle
from restante.client.application.sent_message import NotDelivered
from restante.client.client import Client
from restante.client.relay.connector import connect_by_tls
from restante.core.inboxes.relay_inbox import OwnInbox
from restante.core.outbox_events import OutboxEventType
from restante.model.places import RelayPlace
from restante.ports.relay_connection import RelayConnection
from restante.runtime.testing_clock import MADE_FOR_TESTS
from restante.testing.deterministic import SeededEntropy
from restante.testing.lossy_connection import FaultCounts, Faults, LossyConnection

SINGLES: Final = 40
SINGLE_PAUSE_S: Final = 0.02
"""After the loop the sender sends some messages with pauses, to show the latency of one message."""
AHEAD: Final = 128
"""So many messages of the loop wait for a receipt at most: more would only wait longer in the outbox."""
LOSSY: Final = Faults(request_lost=0.01, answer_lost=0.01, put_twice=0.01, blob_twice=0.02, blob_late=0.04)
SILENT: Final = Faults(request_lost=1.0)
LOOP_S: Final = 120.0
TTL_S: Final = 3_600
LATER_MS: Final = 2 * 3_600_000


async def two_thousand(stage: Stage) -> Chapter:
    """Send in a loop over a lossy network; kill the relay when a third has arrived, and start it again."""
    count, network = stage.messages, stage.network
    numbers = range(count + SINGLES)
    counts = FaultCounts()
    arrived: list[Arrived] = []
    async with (
        _online(stage.people["carol"], LOSSY, stage.seed, counts) as carol,
        _online(stage.people["dave"], LOSSY, stage.seed + 1, counts) as dave,
    ):
        ended: Counter[OutboxEventType] = Counter()
        carol.outbox.on_event(lambda event: ended.update([event.notice]))
        began_s = time.monotonic()
        sending = asyncio.create_task(_send(carol, count))

        async def read(wanted: int) -> None:
            while len(arrived) < wanted:
                some = await receive(dave, min(100, wanted - len(arrived)), within_s=LOOP_S)
                if not some:
                    return
                arrived.extend(some)
                stage.on_progress(f"carol sends dave {count:,} messages over a relay: {len(arrived):,} arrived")

        await read(count // 3)
        network.kill(network.relay)
        killed_s = time.monotonic()
        stage.on_progress("the relay was killed and starts again")
        await asyncio.to_thread(network.restart, network.relay)
        away_s = time.monotonic() - killed_s
        await read(count)
        rate = count / (time.monotonic() - began_s - away_s)
        await read(len(numbers))
        await sending
        await settle(carol, dave)
    latencies = [each.latency_ms for each in arrived]
    is_good = are_in_order(arrived, numbers)
    lost, late = counts.requests_lost + counts.answers_lost, counts.blobs_late
    repeated = counts.puts_repeated + counts.blobs_repeated
    evicted = ended[OutboxEventType.EVICTED]
    return Chapter(
        title="A relay",
        lines=(
            f"carol sent dave {len(numbers):,} messages in a loop, over a relay that both named.",
            f"The network lost {lost}, repeated {repeated} and delayed {late} of them.",
            f"The relay was killed once with SIGKILL and was away for {shown_ms(away_s * 1_000)}.",
            f"{len(arrived):,} arrived, {as_sent(is_good=is_good)}; {evicted} were evicted.",
            f"{rate:,.0f} messages/s; sent one by one, {shown_latency(latencies[count:])}.",
        ),
        is_good=is_good and not evicted,
        figures={
            "sent": len(numbers),
            "received": len(arrived),
            "evicted": evicted,
            "relay_kills": 1,
            "relay_away_ms": round(away_s * 1_000),
            "messages_per_s": round(rate),
            "latency_ms": percentiles(latencies[:count]),
            "single_latency_ms": percentiles(latencies[count:]),
            "faults": asdict(counts),
        },
    )


async def _send(client: Client, count: int) -> None:
    await send_numbered(client, "dave", range(count), ahead=AHEAD)
    await settle(client)
    await send_numbered(client, "dave", range(count, count + SINGLES), pause_s=SINGLE_PAUSE_S)


async def dead_letter(stage: Stage) -> Chapter:
    """No put of carol arrives until all attempts are used; later she recovers the dead letter."""
    stage.on_progress("nothing that carol sends arrives")
    counts = FaultCounts()
    carol_lives_at, dave_lives_at = stage.people["carol"], stage.people["dave"]
    code = ""
    async with _online(carol_lives_at, SILENT, stage.seed, counts) as carol:
        sent = await carol.send("dave", f"0 {time.monotonic_ns()}")
        try:
            await sent.delivered()
        except NotDelivered as problem:
            code = problem.code.value
    letters = await _command("dlq", "list", "--home", str(carol_lives_at.home.path), "--json", status=3)
    attempts = letters["dead_letters"][0]["attempts"]
    recovered = await _command("dlq", "recover", "--all", "--home", str(carol_lives_at.home.path), "--json")
    async with online(carol_lives_at, dave_lives_at) as [carol, dave]:
        arrived = await receive(dave, 1)
        await settle(carol, dave)
    is_good = are_in_order(arrived, range(1)) and letters["total"] == 1 and bool(recovered)
    return Chapter(
        title="A dead letter, recovered",
        lines=(
            f"The network lost everything: after {attempts} attempts carol had a dead letter, {code}.",
            f"'restante dlq recover' put it back into her outbox: dave {'read it' if is_good else 'did NOT read it'}.",
        ),
        is_good=is_good and bool(code),
        figures={"attempts": attempts, "code": code, "received": len(arrived)},
    )


async def expired_message(stage: Stage) -> Chapter:
    """erin accepts a message without a network; two hours later, by her clock, its hour is over."""
    stage.on_progress("erin is offline")
    erin_lives_at = stage.people["erin"]
    home = erin_lives_at.home.path
    erin = erin_lives_at.open()
    await erin.send("dave", f"0 {time.monotonic_ns()}", ttl_s=TTL_S)
    await erin.close()
    (home / MADE_FOR_TESTS).touch()
    config = home / "restante.toml"
    config.write_text(
        f"[journal]\nship_to = {json.dumps(str(stage.segments))}\n[testing]\nclock_offset_ms = {LATER_MS}\n", "utf-8"
    )
    await _command("--config", str(config), "inbox", "--home", str(home), "--idle-timeout-ms", "100", "--json")
    letters = await _command("dlq", "list", "--home", str(home), "--json", status=3)
    [letter] = letters["dead_letters"]
    is_good = (letters["total"], letter["category"]) == (1, "expired")
    return Chapter(
        title="An expired message",
        lines=(
            "erin was offline and wrote a message with a TTL of an hour. Two hours later",
            f"it was {'deleted unsent' if is_good else 'NOT deleted'}, and she was told why, {letter['code']}.",
        ),
        is_good=is_good,
        figures={"code": letter["code"], "category": letter["category"]},
    )


@contextlib.asynccontextmanager
async def _online(person: Person, faults: Faults, seed: int, counts: FaultCounts) -> AsyncIterator[Client]:
    """Run the client over a lossy network until the block ends."""
    dice = SeededEntropy(seed)

    async def connect(relay: RelayPlace, inbox: OwnInbox | None) -> RelayConnection:
        return LossyConnection(await connect_by_tls(relay, inbox), faults, dice, counts)

    client = person.open()
    working = asyncio.create_task(client.run(connect))
    try:
        yield client
    finally:
        await client.close()
        await asyncio.gather(working, return_exceptions=True)


async def _command(*arguments: str, status: int = 0) -> Any:
    """Run a command of this program, as a person would, and return what it prints as JSON."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "restante",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path("/"),
        env=environ,
    )
    out, _ = await process.communicate()
    if process.returncode != status:
        raise RuntimeError(f"restante {' '.join(arguments)} ended with status {process.returncode}")
    return json.loads(out) if out.strip() else None
