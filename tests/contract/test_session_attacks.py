"""What an outsider, a relay, time and a restored backup did to sessions before, each as a test (docs/security.md)."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from restante.client.incoming import INVALID_TAG
from restante.client.sessions.prekey_renewal import OLD_PREKEYS
from restante.client.sessions.recovery import RECOVERY_LIMIT, RESTORED
from restante.core.mesh_proofs.published_keys import encode_published
from restante.crypto.sealing import SEALING_OVERHEAD_BYTES
from restante.model.error_codes import Code
from restante.model.errors import OutboxFull
from restante.model.ids import SessionId, event_number
from restante.model.journal import JournalKind
from restante.model.outbox_entry import OutboxEntry
from restante.model.states import Route, State
from restante.policy.capacity import OutboxLimits
from restante.policy.failures import failure_of_refusal
from restante.policy.session_recovery import MAX_OPENINGS_A_DAY
from restante.policy.settings import Settings
from restante.ports.carrier import StoredByNode
from restante.ports.relay_connection import AttemptFailed
from restante.runtime.journal.segment_directory import DirectoryDepot
from restante.runtime.journal.segment_writer import ship
from restante.testing.deterministic import FakeClock, SeededEntropy
from restante.wire.envelope import decode_envelope
from restante.wire.segment_manifest import decode_manifest
from support.client.client_pairs import Post, bodies, client_in, facts, introduce, security
from support.client.restored_clients import DAY_MS, NAMES, Pair, forged
from support.spec.clauses import clause
from support.system.soak import first_now_rest_in_soak

WEEK_MS = 7 * DAY_MS
TABLES = ("session", "peer", "session_message", "outbox", "message_body", "own_prekeys", "used_prekey", "dead_letter")


@pytest_asyncio.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path)
    await made.meet()
    yield made
    await made.close()


def rows(pair: Pair, name: str, *tables: str) -> list[object]:
    connection = sqlite3.connect(pair.home / name / "client.db")
    found: list[object] = []
    for table in tables:
        found += connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608 - our own names
    connection.close()
    return found


async def established(pair: Pair) -> None:
    for _ in range(2):
        for name in NAMES:
            await pair.say(name, b"hello")
        await pair.round_trip()
    await pair.round_trip()
    assert len(await pair.current()) == 1


async def forgeries(pair: Pair, count: int) -> list[bytes]:
    entropy = SeededEntropy(count)
    [current] = await pair.current()
    sender, to = pair.clients["bob"].identity.address, pair.clients["alice"].identity.card
    claims = [(SessionId(current), 1), (SessionId(entropy.draw(32)), 1), (SessionId(entropy.draw(32)), 0xFFFF_FFFF)]
    return [forged(sender, to, *claims[number % len(claims)], entropy) for number in range(count)]


@clause("8.7", "8.11", "9.1")
@pytest.mark.parametrize("count", first_now_rest_in_soak([300, 10_000], now=1))
async def test_forged_blobs_change_no_session_outbox_or_prekey_and_nothing_is_sent(pair: Pair, count: int) -> None:
    """C1, H2: before, one blob that claims an unknown session split the two sides; 24 made 984 envelopes flow."""
    await established(pair)
    before, [current] = rows(pair, "alice", *TABLES), await pair.current()
    await pair.deliver("alice", await forgeries(pair, count))
    await pair.clients["alice"].run_maintenance()
    assert await pair.collect("alice") == []
    assert rows(pair, "alice", *TABLES) == before
    assert security(pair.clients["alice"]) == [INVALID_TAG] * count
    await pair.say("alice", b"still here")
    await pair.round_trip()
    assert bodies(pair.clients["bob"], pair.clock)[-1] == b"still here"
    assert await pair.current() == {current}


class Refusing(Post):
    """A relay that answers every put with one code."""

    code: str = ""
    permanent: bool = False

    async def transmit(self, entry: OutboxEntry) -> tuple[StoredByNode, ...]:
        raise AttemptFailed(f"no {entry.kind}", failure=failure_of_refusal(self.code, permanent=self.permanent))


@clause("4.3", "4.4", "8.7")
@pytest.mark.parametrize("permanent", [True, False])
async def test_no_answer_of_a_relay_touches_a_session_a_prekey_or_an_encryption(pair: Pair, permanent: bool) -> None:
    """H1: before, E103 made the client reset in a loop: 46 sessions and 47 spent prekeys in 3 s."""
    await established(pair)
    relay, alice = Refusing(pair.clock), pair.clients["alice"]
    for code in Code:
        relay.code, relay.permanent = code, permanent
        keys = rows(pair, "alice", "peer", "own_prekeys", "used_prekey")
        await pair.say("alice", b"refused")
        await alice.outbox.drain({Route.RELAY: relay})
        assert rows(pair, "alice", "peer", "own_prekeys", "used_prekey") == keys
        encrypted = rows(pair, "alice", "session", "message_body", "session_message")
        pair.clock.advance(3_700_000)
        await alice.run_maintenance()
        await alice.outbox.drain({Route.RELAY: relay})
        assert rows(pair, "alice", "peer", "own_prekeys", "used_prekey") == keys
        assert rows(pair, "alice", "session", "message_body", "session_message") == encrypted


@clause("8.7", "8.12")
@pytest.mark.parametrize("is_noticed", [True, False])
@pytest.mark.parametrize("restored", [("alice",), ("bob",), NAMES])
async def test_after_a_week_old_backup_two_round_trips_bring_both_into_one_session(
    pair: Pair, restored: tuple[str, ...], is_noticed: bool
) -> None:
    """C3: before, a restored client lost its conversations in both directions, silently."""
    await established(pair)
    for name in restored:
        await pair.back_up(name)
    for day in range(7):
        for name in NAMES:
            await pair.say(name, b"%s on day %d" % (name.encode(), day))
        await pair.round_trip()
        pair.clock.advance(DAY_MS)
    for name in restored:
        await pair.restore(name, is_noticed=is_noticed)
        noticed = RESTORED in security(pair.clients[name])
        assert noticed is is_noticed
    for turn in range(4):
        for name in NAMES:
            await pair.say(name, b"%s after, turn %d" % (name.encode(), turn))
        await pair.round_trip()
        pair.clock.advance(DAY_MS)
    assert len(await pair.current()) == 1
    for _ in range(3):
        await pair.round_trip()
        pair.clock.advance(DAY_MS)
    for name in NAMES:
        got = bodies(pair.clients[name], pair.clock)
        assert len(set(got) - {b"hello"}) == len([text for text in got if text != b"hello"]), "nothing is shown twice"
        assert {b"%s after, turn %d" % (pair.other(name).encode(), turn) for turn in range(4)} <= set(got)
        assert await pair.clients[name].outbox.counts() == {}


@clause("8.7")
async def test_a_restored_client_takes_another_writer_id(pair: Pair) -> None:
    await established(pair)
    before = pair.clients["alice"].journal.writer
    await pair.back_up("alice")
    await pair.say("alice", b"later")
    await pair.reopen("alice")
    assert pair.clients["alice"].journal.writer == before
    await pair.restore("alice", is_noticed=True)
    assert pair.clients["alice"].journal.writer != before
    assert len(await pair.clients["alice"].sessions()) == 1


@clause("8.7", "13.1")
async def test_after_a_restore_each_writer_id_has_all_numbers_from_one_on(pair: Pair, tmp_path: Path) -> None:
    """The fleet counts the numbers that a writer skipped as missing events."""
    await established(pair)
    await pair.back_up("alice")
    for text in (b"lost with the restore", b"after the restore", b"after another restore"):
        if text != b"lost with the restore":
            await pair.restore("alice", is_noticed=True)
        await pair.say("alice", text)
        ship(pair.clients["alice"].journal, DirectoryDepot(tmp_path / "depot"))
    numbers: dict[bytes, list[int]] = {}
    for row in facts(pair.clients["alice"]):
        numbers.setdefault(row.writer, []).append(event_number(row.event_id))
    assert [found == list(range(1, len(found) + 1)) for found in numbers.values()] == [True, True]
    manifests = [decode_manifest(path.read_bytes()) for path in (tmp_path / "depot").glob("*.manifest.json")]
    assert sorted(manifest.first for manifest in manifests) == [1, 1, 1]
    assert all(manifest.previous is None for manifest in manifests)
    assert len({manifest.writer for manifest in manifests}) == 3


@clause("8.7")
async def test_six_genuine_messages_held_back_replayed_and_reordered_move_nothing(pair: Pair) -> None:
    await established(pair)
    [current] = await pair.current()
    for number in range(6):
        await pair.say("bob", b"%d" % number)
    held = await pair.collect("bob")
    await pair.deliver("alice", held[::-1])
    await pair.round_trip()
    before = rows(pair, "alice", "session", "peer", "outbox", "own_prekeys", "used_prekey")
    for again in (held, held[::-1], held[::2], held * 3):
        await pair.deliver("alice", again)
        await pair.clients["alice"].run_maintenance()
        assert await pair.collect("alice") == []
    assert rows(pair, "alice", "session", "peer", "outbox", "own_prekeys", "used_prekey") == before
    assert bodies(pair.clients["alice"], pair.clock)[-6:] == [b"%d" % number for number in range(6)]
    assert await pair.current() == {current}


@clause("10.3")
async def test_a_relay_that_replays_a_blob_sees_at_most_one_receipt_a_day_and_not_at_once(pair: Pair) -> None:
    """H5: before, each replay of a blob made the recipient send a receipt, which names its sender to the relay."""
    await established(pair)
    await pair.say("bob", b"replayed")
    [envelope] = await pair.collect("bob")
    await pair.deliver("alice", [envelope])
    await pair.round_trip()
    sent = 0
    for _ in range(24):
        await pair.deliver("alice", [envelope])
        await pair.clients["alice"].run_maintenance()
        pair.clock.advance(1_100)
        await pair.clients["alice"].run_maintenance()
        assert (sent := sent + len(await pair.collect("alice"))) <= 1
        pair.clock.advance(3_600_000 - 1_100)
    assert sent == 1


@clause("3.6", "8.7")
async def test_with_a_full_outbox_receiving_goes_on_and_asks_with_the_control_reserve(tmp_path: Path) -> None:
    """M2: before, a blob of an unknown session made receiving raise while the outbox was full."""
    pair = Pair(tmp_path)
    await pair.meet()
    await established(pair)
    await pair.clients["alice"].close()
    tight = Settings(outbox=OutboxLimits(max_entries=100))
    alice = pair.clients["alice"] = client_in(tmp_path / "alice", clock=pair.clock, settings=tight, seed=50)
    for number in range(80):
        await pair.say("alice", b"%d" % number)
    with pytest.raises(OutboxFull):
        await alice.send("bob", b"too much", wait=False)
    await pair.deliver("alice", await forgeries(pair, 10))
    await alice.reset_sessions("bob")
    await pair.say("bob", b"in a session that is gone")
    await pair.deliver("alice", await pair.collect("bob"))
    assert security(alice)[-1] == Code.SESSION_INVALID
    counts = await alice.outbox.counts()
    assert counts == {State.PENDING: 82}, "80 messages, LOST and CANNOT_READ"
    await pair.close()


@clause("8.10", "2.9")
@pytest.mark.parametrize(
    ("text", "padded_bytes"), [(b"", 4_096), (b"short", 4_096), (b"x" * 1_300, 4_096), (b"x" * 20_000, 24_576)]
)
async def test_a_first_message_is_as_long_as_an_ordinary_one(pair: Pair, text: bytes, padded_bytes: int) -> None:
    """M8: before, opening messages were recognisable by their size."""
    await pair.say("alice", text)
    [first] = await pair.collect("alice")
    assert len(decode_envelope(first).sealed) == padded_bytes + SEALING_OVERHEAD_BYTES
    await pair.deliver("bob", [first])
    await pair.round_trip()
    await pair.say("alice", text)
    assert [len(raw) for raw in await pair.collect("alice")] == [len(first)]


@clause("8.7")
async def test_resetting_the_sessions_with_one_contact_brings_what_was_not_received(pair: Pair) -> None:
    await established(pair)
    await pair.say("bob", b"on its way")
    await pair.clients["alice"].reset_sessions("bob")
    for _ in range(4):
        await pair.round_trip()
    assert bodies(pair.clients["alice"], pair.clock)[-1] == b"on its way"
    assert len(await pair.current()) == 1
    changed = facts(pair.clients["bob"], JournalKind.SESSION_CHANGED)
    assert len(changed) == 1
    assert changed[0].previous_session_tag != changed[0].session_tag
    await introduce(pair.clients["alice"], pair.clients["bob"], name="bob")


@clause("8.7")
async def test_a_daily_limit_of_openings_is_counted_on_disk_and_reported_to_the_user(pair: Pair) -> None:
    await established(pair)
    for _ in range(MAX_OPENINGS_A_DAY):
        await pair.clients["alice"].reset_sessions("bob")
        await pair.reopen("alice")
    assert len(await pair.clients["alice"].sessions()) == 1
    assert RECOVERY_LIMIT not in security(pair.clients["alice"])
    await pair.clients["alice"].reset_sessions("bob")
    assert await pair.clients["alice"].sessions() == []
    assert security(pair.clients["alice"])[-1] == RECOVERY_LIMIT
    pair.clock.advance(DAY_MS)
    await pair.clients["alice"].reset_sessions("bob")
    assert len(await pair.clients["alice"].sessions()) == 1


@clause("8.8", "8.1")
async def test_prekeys_are_renewed_inside_the_session_so_that_a_reset_works_after_38_days(pair: Pair) -> None:
    """M7: before, prekeys were never renewed within a conversation, and at day 38 a reset failed."""
    await established(pair)
    for day in range(45):
        pair.clock.advance(DAY_MS)
        if day % 3 == 0:
            await pair.say("alice", b"day %d" % day)
        await pair.round_trip()
    await pair.clients["alice"].reset_sessions("bob")
    await pair.say("alice", b"after 45 days")
    for _ in range(3):
        await pair.round_trip()
    assert bodies(pair.clients["bob"], pair.clock)[-1] == b"after 45 days"
    assert len(await pair.current()) == 1


@clause("8.8")
async def test_an_older_bundle_never_replaces_a_newer_one(pair: Pair) -> None:
    """M7: before, an old bundle replaced a new one."""
    await established(pair)
    told = encode_published(await pair.clients["bob"].own_keys.published())
    pair.clock.advance(8 * DAY_MS)
    for _ in range(2):
        await pair.round_trip()
    alice, peer = pair.clients["alice"], pair.clients["bob"].identity.address
    newest = alice.parts.encryptor.newest_bundle(alice.contacts.named("bob"), now_ms=pair.clock.now_ms())
    assert newest.issued_at_ms > FakeClock().now_ms() + WEEK_MS
    await alice.file.run(lambda: alice.parts.renewal.receive(peer, told, now_ms=pair.clock.now_ms()))
    assert security(alice)[-1] == OLD_PREKEYS
    again = alice.parts.encryptor.newest_bundle(alice.contacts.named("bob"), now_ms=pair.clock.now_ms())
    assert again == newest
