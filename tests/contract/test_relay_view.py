"""All that a relay sees of a conversation: swapping the senders changes nothing but random bytes (SPEC 6.5)."""

from pathlib import Path

from restante.wire.envelope import decode_envelope
from support.client.restored_clients import NAMES, Pair
from support.spec.clauses import clause


async def view(home: Path, first: str) -> list[tuple[str, int, int]]:
    """What is put, in order: whose mailbox, how many bytes, until when."""
    pair = Pair(home)
    await pair.meet()
    seen: list[tuple[str, int, int]] = []
    mailboxes: dict[bytes, str] = {}
    names = (first, pair.other(first))
    for turn in range(3):
        for name in names:
            await pair.say(name, b"%d" % turn)
            await pair.clients[name].run_maintenance()
            pair.clock.advance(1_100)
            await pair.clients[name].run_maintenance()
            for raw in await pair.collect(name):
                envelope = decode_envelope(raw)
                mailbox = mailboxes.setdefault(envelope.inbox_key, f"mailbox {len(mailboxes)}")
                seen.append((mailbox, len(raw), envelope.expires_at_ms))
                await pair.deliver(pair.other(name), [raw])
    await pair.close()
    return seen


@clause("6.5", "8.5", "8.10")
async def test_swapping_the_senders_changes_nothing_that_a_relay_sees_but_random_bytes(tmp_path: Path) -> None:
    one, other = [await view(tmp_path / first, first) for first in NAMES]
    assert one == other
    assert len({size for _, size, _ in one}) == 1, "first, ordinary and control messages have one size"
