"""The power fails at each write and each sync of an inbox's life; what was acknowledged before is there afterwards."""

from contextlib import suppress
from pathlib import Path

from restante.core.decrypted_messages import DecryptedMessage
from restante.model.errors import StoreUnusable
from restante.model.ids import MessageId
from restante.testing.crashing_disk import CrashingDisk
from support.inbox.decrypted_messages import ALICE, NEXT_SESSION, SESSION, letter, shown
from support.spec.clauses import clause
from support.sqlite.files import NOW_MS, ClientFile, open_client_file

GAP_MS = 300_000
BATCHES = (
    ((0, SESSION), (3, SESSION), (1, SESSION)),
    ((1, SESSION), (5, SESSION)),
    ((2, NEXT_SESSION), (4, NEXT_SESSION), (1, NEXT_SESSION)),
)
"""In order, ahead, again; then what has no receipt, in another session."""


def envelope(number: int, session: bytes) -> DecryptedMessage:
    places = {2: 0, 4: 1, 1: 2}
    if session == SESSION:
        return letter(number)
    return letter(number, session=NEXT_SESSION, sequence=places[number])


def live(file: ClientFile, acknowledged: list[MessageId]) -> None:
    for arrivals in BATCHES:
        with file.inbox.batch(now_ms=NOW_MS) as batch:
            for number, session in arrivals:
                batch.receive_decrypted(envelope(number, session), server_timestamp_ms=NOW_MS)
        ids = file.inbox.take_owed(ALICE, limit=64, now_ms=NOW_MS)
        acknowledged.extend(ids)
    file.inbox.pass_time(now_ms=NOW_MS + GAP_MS)


def live_until_the_power_fails(path: Path, disk: CrashingDisk) -> list[MessageId]:
    acknowledged: list[MessageId] = []
    with disk.plugged_in(), suppress(StoreUnusable):
        live(open_client_file(path), acknowledged)
    disk.lose_unsynced()
    return acknowledged


@clause("1.3", "9.3")
def test_at_whatever_write_the_power_fails_nothing_acknowledged_is_lost_and_nothing_shown_twice(tmp_path: Path) -> None:
    counting = CrashingDisk()
    live_until_the_power_fails(tmp_path / "whole.db", counting)
    assert counting.operations > 30
    for fails_at in range(1, counting.operations + 1):
        path = tmp_path / f"{fails_at}.db"
        disk = CrashingDisk(fails_at=fails_at, seed=fails_at)
        acknowledged = live_until_the_power_fails(path, disk)
        assert disk.is_down
        with CrashingDisk().plugged_in():  # whole again
            file = open_client_file(path, seed=2)
            kept = {row for (row,) in file.database.run("SELECT message_id FROM inbox_message")}
            kept |= {row for (row,) in file.database.run("SELECT message_id FROM reorder_buffer")}
            assert set(acknowledged) <= kept, fails_at
            live(file, acknowledged)  # the sender has no receipt and sends everything again
            bodies = [entry.plaintext for entry in shown(file)]
            assert sorted(bodies) == [b"body %d" % number for number in range(6)], fails_at
            file.database.close()
        for left in tmp_path.glob(f"{fails_at}.db*"):
            left.unlink()
