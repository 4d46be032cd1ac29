"""SPEC 6.8 over real sockets: who goes beyond a limit pays, others never notice."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from restante.core.inboxes.relay_inbox import OwnInbox
from restante.node.stats import RelayEvent
from restante.node.write_batcher import MAX_BATCH
from restante.policy.connection_limits import RelayLimits
from restante.policy.failures import Failure
from restante.ports.relay_connection import AttemptFailed, ConnectionLost
from restante.runtime.sqlite.file.database import Database
from restante.wire.frames import codec
from support.relay.raw_peer import BOB, LOOPBACK, MALLORY, SOON_S, START, RawPeer, RunningRelay, running_relay
from support.spec.clauses import clause
from support.system.manual_event_loop import still_time
from support.system.wait_until import until_true

LIMITS = RelayLimits()


async def works(relay: RunningRelay) -> bool:
    """Whether a newcomer is served."""
    link = await relay.link()
    await link.put(relay.envelope(b"still served"))
    await link.close()
    return True


def partly(relay: RunningRelay, size_bytes: int) -> Callable[[], bool]:
    """Whether so many bytes of incomplete frames are buffered."""
    return lambda: relay.relay.stats().partial_frame_bytes == size_bytes


@clause("6.7", "6.8")
async def test_puts_beyond_a_fixed_rate_are_refused_for_now_with_a_retry_after(tmp_path: Path) -> None:
    limits = RelayLimits(put_rate_per_s=5)
    with still_time():
        async with running_relay(tmp_path, limits=limits) as relay:
            link = await relay.link()
            outcomes = await link.put_many([relay.envelope(b"%d" % number) for number in range(8)])
            refused = [each for each in outcomes if isinstance(each, AttemptFailed)]
            assert len(refused) == 3
            for each in refused:
                assert (each.failure, each.code.value) == (Failure.RATE_LIMITED, "E007")
                assert each.retry_after_ms is not None
                assert 0 < each.retry_after_ms <= 1_000
            assert len(relay.held()) == 5
            assert await works(relay)  # the limit is a connection's, not the relay's
            await link.close()


@clause("6.8")
async def test_one_connection_too_many_is_rejected_and_the_others_stay(tmp_path: Path) -> None:
    """Each from a source of its own."""
    async with running_relay(tmp_path, limits=RelayLimits(max_connections=4)) as relay:
        async with contextlib.AsyncExitStack() as stack:
            peers = [
                (await stack.enter_async_context(RawPeer.connected(relay.port, source=f"127.0.{number}.1")))[0]
                for number in range(1, 5)
            ]
            with pytest.raises(AttemptFailed):
                await relay.link()
            for peer in peers:
                assert await peer.ask(codec.Ping()) == codec.Pong()
            await peers[0].abort()
            await until_true(lambda: relay.relay.stats().connections == 3)
            assert await works(relay)
        assert relay.relay.stats().connections_rejected_total == 1


@clause("6.8")
async def test_once_half_are_taken_a_source_that_holds_a_quarter_gets_no_more_and_another_does(tmp_path: Path) -> None:
    async with running_relay(tmp_path, limits=RelayLimits(max_connections=8)) as relay:
        links = [await relay.link() for _ in range(4)]
        with pytest.raises(AttemptFailed):
            await relay.link()
        async with RawPeer.connected(relay.port, source="127.0.2.1") as (peer, _):
            assert await peer.ask(codec.Ping()) == codec.Pong()
        for link in links:
            await link.ping()
            await link.close()


@clause("6.8")
async def test_the_fifth_subscription_of_a_mailbox_is_refused_for_now(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        links = [await relay.link(BOB) for _ in range(4)]
        fifth = await relay.link()
        with pytest.raises(AttemptFailed, match="at most 4") as refused:
            await fifth.subscribe(OwnInbox(BOB))
        assert refused.value.failure is Failure.RATE_LIMITED
        await fifth.subscribe(OwnInbox(MALLORY))
        sixth = await relay.link()
        await links.pop().close()
        await until_true(lambda: relay.relay.stats().subscriptions == 4)
        await sixth.subscribe(OwnInbox(BOB))
        for link in (*links, fifth, sixth):
            await link.close()


@clause("6.8")
@pytest.mark.parametrize("says", [b"", b"\x16\x03\x01"], ids=["nothing", "half"])
async def test_whoever_does_not_get_through_the_handshake_in_time_is_cut_off(tmp_path: Path, says: bytes) -> None:
    with still_time() as time:
        async with running_relay(tmp_path) as relay:
            bystander = await relay.link(BOB)
            reader, writer = await asyncio.open_connection(LOOPBACK, relay.port)
            writer.write(says)
            await until_true(lambda: relay.relay.stats().connections_total == 2)
            time.advance(LIMITS.handshake_timeout_ms / 1_000)
            assert await reader.read() == b""
            writer.close()
            assert relay.relay.stats().handshake_failures_total == 1
            await bystander.ping()
            await bystander.close()


@clause("6.8")
async def test_whoever_says_something_else_is_cut_off_at_once(tmp_path: Path) -> None:
    with still_time():
        async with running_relay(tmp_path) as relay:
            bystander = await relay.link(BOB)
            reader, writer = await asyncio.open_connection(LOOPBACK, relay.port)
            writer.write(b"GET / HTTP/1.1\r\n")
            await reader.read()  # the alert that says why, and the end
            writer.close()
            assert relay.relay.stats().handshake_failures_total == 1
            await bystander.ping()
            await bystander.close()


@clause("6.8")
async def test_pings_before_the_greeting_do_not_stretch_the_handshake(tmp_path: Path) -> None:
    with still_time() as time:
        async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port, starts=False) as (peer, _):
            for _ in range(LIMITS.handshake_timeout_ms // 1_000):
                assert await peer.ask(codec.Ping()) == codec.Pong()
                time.advance(1.0)
            assert await peer.is_cut_off()
            assert relay.relay.stats().handshake_failures_total == 1


@clause("6.8")
async def test_a_silent_client_is_dropped_and_one_that_pings_stays(tmp_path: Path) -> None:
    with still_time() as time:
        async with running_relay(tmp_path) as relay:
            lively = await relay.link()
            async with RawPeer.connected(relay.port) as (silent, _):
                assert await silent.ask(codec.Ping()) == codec.Pong()
                for _ in range(LIMITS.idle_timeout_ms // LIMITS.heartbeat_interval_ms):
                    assert relay.relay.stats().connections_closed_total[RelayEvent.IDLE_TIMEOUT] == 0
                    time.advance(LIMITS.heartbeat_interval_ms / 1_000)
                    await lively.ping()
                assert await silent.is_cut_off()
            assert relay.relay.stats().connections_closed_total[RelayEvent.IDLE_TIMEOUT] == 1
            await lively.ping()
            await lively.close()


@clause("6.8")
async def test_a_client_that_does_not_read_is_dropped_and_hurts_nobody(tmp_path: Path) -> None:
    limits = RelayLimits(max_send_buffer_bytes=65_536)
    with still_time() as time:
        async with running_relay(tmp_path, limits=limits) as relay:
            sender = await relay.link()
            await sender.put_many([relay.envelope(bytes(200_000)) for _ in range(40)])
            async with RawPeer.connected(relay.port, receive_buffer_bytes=4_096) as (slow, hello):
                await slow.say(codec.encode_frame(slow.proof(BOB, hello), 1))
                slow.stop_reading()
                while relay.relay.stats().connections_closed_total[RelayEvent.SLOW_READER] == 0:
                    with contextlib.suppress(ConnectionError):
                        await slow.say(codec.encode_frame(codec.Credit(through=2**63 - 1), 0))  # a lie
                    await sender.put(relay.envelope(b"others go on", reader=MALLORY))
                    time.advance(1.0)
            good = await relay.link(BOB)
            for _ in range(40):
                await good.next_blob()
            for link in (sender, good):
                await link.close()


async def test_a_relay_behind_its_disk_stops_reading_and_goes_on_when_it_has_caught_up(tmp_path: Path) -> None:
    """More than may wait, while another process holds the file: nothing is refused for it, nothing lost."""
    async with running_relay(tmp_path, limits=RelayLimits(max_uncommitted_bytes=1_048_576)) as relay:
        link = await relay.link()
        sent = [relay.envelope(number.to_bytes(4, "big") + bytes(100_000)) for number in range(60)]
        outcomes = await link.put_many(sent)
        assert not [each for each in outcomes if isinstance(each, AttemptFailed)]
        assert relay.held() == sent
        await link.close()


@clause("6.4", "6.5")
async def test_mail_that_the_client_does_not_take_stays_with_the_relay(tmp_path: Path) -> None:
    """A window, not a flood; and puts on the same link are answered all the while."""
    async with running_relay(tmp_path) as relay:
        link = await relay.link(BOB)
        sent = [relay.envelope(b"%d" % number) for number in range(3_000)]
        outcomes = await link.put_many(sent)
        assert not [each for each in outcomes if isinstance(each, AttemptFailed)]
        await link.ping()
        assert relay.relay.stats().blobs_served_total < 2_000
        async with asyncio.timeout(SOON_S):
            got = [(await link.next_blob()).envelope for _ in sent]
        assert got == sent
        await link.close()


async def test_frames_of_an_unknown_type_are_refused_by_code_and_the_link_lives_on(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port) as (peer, _):
        await peer.say(codec.frame_head(0x7F, 9, 3) + b"new")
        number, refused = await peer.hear()
        assert isinstance(refused, codec.Refused)
        assert (number, refused.permanent, refused.code) == (9, True, "E101")
        assert await peer.ask(codec.Ping(), 2) == codec.Pong()


@pytest.mark.parametrize(
    "start",
    [codec.Start(version=2, capabilities=0), codec.Start(version=1, capabilities=2)],
    ids=["version", "capability"],
)
async def test_a_version_or_capability_nobody_offered_is_refused_and_the_link_ends(
    tmp_path: Path, start: codec.Start
) -> None:
    async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port, starts=False) as (peer, hello):
        assert (hello.lowest_version, hello.highest_version, hello.capabilities) == (1, 1, 1)
        assert (await peer.refusal(start)).permanent
        assert await peer.is_cut_off()


async def test_nothing_but_a_ping_is_taken_before_the_greeting(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port, starts=False) as (peer, hello):
        assert await peer.ask(codec.Ping(), 1) == codec.Pong()
        put = codec.Put(envelope=relay.envelope(b"early"))
        assert (await peer.refusal(put, 2)).code == "E108"
        assert (await peer.refusal(peer.proof(BOB, hello), 3)).code == "E108"
        await peer.say(codec.encode_frame(START, 0))
        assert isinstance(await peer.ask(put, 4), codec.Stored)
        assert (await peer.refusal(START, 5)).code == "E108"


async def test_what_came_before_a_broken_frame_is_stored_and_its_answer_harms_nobody(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        bystander = await relay.link()
        raw = relay.envelope(b"good")
        async with RawPeer.connected(relay.port) as (peer, _):
            broken = codec.frame_head(codec.FrameType.DELETE, 2, 8) + b"\xff" * 8
            putting = asyncio.create_task(bystander.put(relay.envelope(b"bystander's")))
            await peer.say(codec.encode_frame(codec.Put(envelope=raw), 1) + broken)
            assert await peer.is_cut_off()
            await putting
        await until_true(lambda: relay.relay.stats().puts_stored_total == 2)
        assert raw in relay.held()
        await bystander.close()


async def test_thousands_of_deletes_at_once_are_all_answered(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        link = await relay.link(BOB)
        await link.put_many([relay.envelope(b"%d" % number) for number in range(3_000)])
        async with asyncio.timeout(SOON_S):
            ids = [(await link.next_blob()).blob_id for _ in range(3_000)]
        await asyncio.gather(
            *(link.delete_many(ids[start : start + 1_000]) for start in (0, 1_000, 2_000) for _ in "ab")
        )
        assert relay.held() == []
        assert relay.relay.stats().blobs_deleted_total == 3_000
        assert relay.relay.stats().pending_put_bytes == 0
        await link.close()


@clause("6.5", "6.8")
async def test_a_wrong_proof_ends_the_connection(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port) as (peer, hello):
        assert (await peer.refusal(peer.proof(BOB, hello, signer=MALLORY))).code == "E103"
        assert await peer.is_cut_off()
        assert await works(relay)


@clause("6.8")
async def test_a_frame_that_does_not_get_whole_in_time_ends_its_connection(tmp_path: Path) -> None:
    with still_time() as time:
        async with running_relay(tmp_path) as relay, RawPeer.connected(relay.port) as (peer, _):
            await peer.say(codec.frame_head(codec.FrameType.PUT, 1, 1_000))
            for second in range(LIMITS.frame_timeout_ms // 1_000):
                await until_true(partly(relay, 9 + second))
                await peer.say(b"x")
                time.advance(1.0)
            assert await peer.is_cut_off()
            assert relay.relay.stats().connections_closed_total[RelayEvent.FRAME_TIMEOUT] == 1
            await until_true(lambda: relay.relay.stats().partial_frame_bytes == 0)


@clause("6.8")
async def test_partial_frames_beyond_the_memory_budget_cost_the_oldest_its_connection(tmp_path: Path) -> None:
    limits = RelayLimits(max_partial_bytes=1_048_576)
    part = codec.frame_head(codec.FrameType.PUT, 1, 500_000) + bytes(400_000)
    async with running_relay(tmp_path, limits=limits) as relay, contextlib.AsyncExitStack() as stack:
        peers = []
        for number in range(1, 4):
            peer, _ = await stack.enter_async_context(RawPeer.connected(relay.port))
            await peer.say(part)
            await until_true(partly(relay, min(number, 2) * len(part)))
            peers.append(peer)
        assert await peers[0].is_cut_off()
        assert relay.relay.stats().connections_closed_total[RelayEvent.PARTIAL_FRAMES_FULL] == 1
        assert await works(relay)


@clause("6.8")
async def test_a_modest_sender_does_not_wait_for_the_backlog_of_greedy_ones(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay, contextlib.AsyncExitStack() as stack:
        puts = b"".join(
            codec.encode_frame(codec.Put(envelope=relay.envelope(b"greedy".ljust(1_024), reader=MALLORY)), number)
            for number in range(1, 2_001)
        )
        greedy = [
            (await stack.enter_async_context(RawPeer.connected(relay.port, source="127.0.2.1")))[0] for _ in range(4)
        ]
        modest, _ = await stack.enter_async_context(RawPeer.connected(relay.port))
        sending = asyncio.gather(*(peer.say(puts) for peer in greedy))
        await until_true(lambda: relay.relay.stats().pending_puts > 3 * MAX_BATCH)
        stored, own = relay.relay.stats().puts_stored_total, relay.envelope(b"modest")
        assert isinstance(await modest.ask(codec.Put(envelope=own)), codec.Stored)
        # Before it are at most the batch that was being written, the one before the relay read it, and its own. Commits
        # until the answer is read say nothing: this loop runs the relay too, and writes on before it reads.
        assert relay.held().index(own) - stored <= 3 * MAX_BATCH
        await sending


@clause("1.3")
async def test_a_relay_that_stops_answers_the_puts_it_has_taken_and_takes_no_more(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        link = await relay.link()
        sent = [relay.envelope(b"%d" % number) for number in range(200)]
        putting = asyncio.create_task(link.put_many(sent))
        await until_true(lambda: relay.relay.stats().pending_put_bytes > 0 or relay.relay.stats().puts_stored_total > 0)
        await relay.relay.stop()
        outcomes = await putting
        acknowledged = [raw for raw, each in zip(sent, outcomes, strict=True) if not isinstance(each, AttemptFailed)]
        assert acknowledged == relay.held()
        assert acknowledged
        with pytest.raises(ConnectionLost):
            await link.ping()
        with pytest.raises(AttemptFailed):
            await relay.link()


@clause("6.1")
async def test_a_reap_removes_what_has_expired_and_counts_it(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        link = await relay.link()
        await link.put_many([relay.envelope(b"%d" % number, hours=2) for number in range(2_500)])
        await link.put(relay.envelope(b"stays", hours=3))
        relay.clock.advance(2 * 3_600_000 - relay.clock.now_ms() % 3_600_000 - 1)
        assert await relay.relay.reap() == 0
        relay.clock.advance(1)
        assert await relay.relay.reap() == 2_500
        assert len(relay.held()) == 1
        assert relay.relay.stats().blobs_reaped_total == 2_500
        await link.close()


async def test_a_store_that_cannot_be_used_shows_in_the_figures_until_it_can(tmp_path: Path) -> None:
    async with running_relay(tmp_path) as relay:
        link = await relay.link()
        other = Database(relay.database.path, schema="node")
        with other.transaction(), pytest.raises(AttemptFailed):
            await link.put(relay.envelope(b"refused for now"))
        other.close()
        assert not relay.relay.stats().store_usable
        await link.put(relay.envelope(b"taken"))
        figures = relay.relay.stats()
        assert figures.store_usable
        assert figures.puts_stored_total == 1
        assert {code.value: times for code, times in figures.refusals_total.items()} == {"E004": 1}
        await link.close()
