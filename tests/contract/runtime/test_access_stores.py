"""Access secrets on disk: those of contacts, who has ours, and our own past and present ones (SPEC 8.8)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.core.inboxes.former_inboxes import MOST_FORMER_INBOXES, READ_MS
from restante.crypto.blinded_keys import NO_SECRET
from restante.crypto.identity import Identity
from restante.crypto.storage_seal import StorageSeal
from restante.model.ids import Address
from restante.runtime.sqlite.access_secrets import AccessSecrets
from restante.runtime.sqlite.file.database import Database
from restante.runtime.sqlite.own_access import OwnAccess
from restante.testing.deterministic import SeededEntropy
from support.spec.clauses import clause

OWNER, BOB, CAROL = Identity(b"o" * 32), Address(b"b" * 32), Address(b"c" * 32)
SEAL = StorageSeal(OWNER.storage_key)
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
OLD, NEW = b"1" * 32, b"2" * 32


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / "client.db", schema="client")
    yield opened
    opened.close()


@pytest.fixture
def access(database: Database) -> AccessSecrets:
    return AccessSecrets(database, seal=SEAL, entropy=SeededEntropy(1))


@pytest.fixture
def own(database: Database) -> OwnAccess:
    return OwnAccess(database, OWNER, seal=SEAL, entropy=SeededEntropy(2))


def read_again(database: Database, entropy: int = 3) -> tuple[AccessSecrets, OwnAccess]:
    access = AccessSecrets(database, seal=SEAL, entropy=SeededEntropy(entropy))
    own = OwnAccess(database, OWNER, seal=SEAL, entropy=SeededEntropy(entropy))
    with database.transaction():
        access.refresh()
        own.refresh()
    return access, own


def reads_a_message_of(database: Database, peer: Address) -> None:
    database.run(
        "INSERT INTO session (peer, session_id, generation, is_initiator, is_read, is_confirmed, began_at_ms,"
        " next_sequence, sealed_state) VALUES (:peer, :peer, 1, 0, 1, 1, 0, 0, x'00')",
        peer=peer,
    )


@clause("2.10", "8.8")
def test_a_statement_of_a_clock_far_ahead_stands_against_later_ones_for_a_day_only(
    database: Database, access: AccessSecrets
) -> None:
    year_ms = 365 * 86_400_000
    later_ms = NOW_MS + 2 * 86_400_000
    with database.transaction():
        access.keep(BOB, OLD, stated_at_ms=NOW_MS + year_ms, now_ms=NOW_MS)
        access.keep(BOB, NEW, stated_at_ms=later_ms, now_ms=later_ms)
        access.use(BOB)
    assert access.secret_of(BOB) == NEW


@clause("8.8")
def test_an_older_statement_of_a_contact_never_replaces_a_newer_one(database: Database, access: AccessSecrets) -> None:
    with database.transaction():
        access.keep(BOB, NEW, stated_at_ms=NOW_MS, now_ms=NOW_MS)
        access.use(BOB)
        access.keep(BOB, OLD, stated_at_ms=NOW_MS - 1, now_ms=NOW_MS)
        access.keep(BOB, OLD, stated_at_ms=NOW_MS, now_ms=NOW_MS)
    assert access.secret_of(BOB) == NEW
    with database.transaction():
        access.keep(BOB, NEW, stated_at_ms=NOW_MS + 10, now_ms=NOW_MS)  # the same again
        access.keep(BOB, OLD, stated_at_ms=NOW_MS + 9, now_ms=NOW_MS)
    assert access.secret_of(BOB) == NEW
    assert read_again(database)[0].secret_of(BOB) == NEW


@clause("8.8")
def test_mail_goes_to_the_public_inbox_until_a_new_secret_is_used(database: Database, access: AccessSecrets) -> None:
    with database.transaction():
        access.keep(BOB, OLD, stated_at_ms=1, now_ms=NOW_MS)
        access.use(BOB)
        access.keep(BOB, NEW, stated_at_ms=2, now_ms=NOW_MS)
        assert access.unused() == [BOB]
        assert access.secret_of(BOB) == NO_SECRET
        access.use(BOB)
    assert (access.unused(), access.secret_of(BOB)) == ([], NEW)


@clause("8.8")
def test_contacts_are_told_once_we_read_them_and_again_until_they_use_the_secret(
    database: Database, access: AccessSecrets
) -> None:
    with database.transaction():
        access.keep(BOB, OLD, stated_at_ms=1, now_ms=NOW_MS)
        assert access.to_tell(now_ms=NOW_MS) == []
        reads_a_message_of(database, BOB)
        assert access.to_tell(now_ms=NOW_MS) == [BOB]
        access.mark_told(BOB, now_ms=NOW_MS)
        assert access.to_tell(now_ms=NOW_MS + 6 * DAY_MS) == []
        access.note_arrival(BOB, is_in_contacts_inbox=False)
        assert access.to_tell(now_ms=NOW_MS + 6 * DAY_MS) == [], "what it wrote before it knew"
        assert access.to_tell(now_ms=NOW_MS + 7 * DAY_MS) == [BOB]
        access.note_arrival(BOB, is_in_contacts_inbox=True)
        assert access.to_tell(now_ms=NOW_MS + 70 * DAY_MS) == []
        access.note_arrival(BOB, is_in_contacts_inbox=False)
        assert access.to_tell(now_ms=NOW_MS + DAY_MS) == [BOB], "it used the secret and does not any more"
    again, _ = read_again(database)
    with database.transaction():
        assert again.to_tell(now_ms=NOW_MS + DAY_MS) == [BOB]
        again.note_arrival(CAROL, is_in_contacts_inbox=True)  # unknown here: nothing to note
        assert again.to_tell(now_ms=NOW_MS) == []


@clause("8.8")
def test_only_somebody_who_has_our_secret_and_is_no_contact_makes_it_rotate(
    database: Database, access: AccessSecrets
) -> None:
    with database.transaction():
        access.keep(CAROL, OLD, stated_at_ms=1, now_ms=NOW_MS)
        assert not access.forget_others({BOB}.__contains__), "she gave us hers and was told nothing"
        access.mark_told(BOB, now_ms=NOW_MS)
        access.mark_told(CAROL, now_ms=NOW_MS)
        assert not access.forget_others({BOB, CAROL}.__contains__)
        assert access.forget_others({BOB}.__contains__)
        assert not access.forget_others({BOB}.__contains__), "she is forgotten"


@clause("8.8")
def test_a_rotated_secret_is_random_kept_sealed_and_the_old_one_is_still_read(
    database: Database, own: OwnAccess
) -> None:
    assert own.current.secret == OWNER.access_secret
    with database.transaction():
        own.rotate(now_ms=NOW_MS)
        own.rotate(now_ms=NOW_MS + 5)
    secrets = [*own.former, own.current]
    assert [each.number for each in secrets] == [0, 1, 2]
    assert len({each.secret for each in secrets}) == 3
    assert [(each.since_ms, each.retired_at_ms) for each in secrets] == [
        (0, NOW_MS),
        (NOW_MS, NOW_MS + 5),
        (NOW_MS + 5, None),
    ]
    _, again = read_again(database)
    assert [*again.former, again.current] == secrets
    raw = b"".join(bytes(row[0]) for row in database.run("SELECT sealed_secret FROM own_access"))
    assert not any(each.secret in raw for each in secrets)


@clause("8.8")
def test_a_rotation_that_was_rolled_back_did_not_happen(database: Database, own: OwnAccess) -> None:
    def fail() -> None:
        with database.transaction():
            own.rotate(now_ms=NOW_MS)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.transaction():
        own.refresh()
    assert (own.current.secret, own.former) == (OWNER.access_secret, ())


@clause("8.8")
def test_what_is_no_longer_read_is_forgotten_with_its_buckets(database: Database, own: OwnAccess) -> None:
    with database.transaction():
        own.rotate(now_ms=NOW_MS)
        for name in ("contacts inbox 0", "contacts inbox 1"):
            database.run("INSERT INTO mesh_bucket VALUES (:name, 1, 'open', 0, 0)", name=name)
        own.forget_read(all_read_at_ms=NOW_MS, now_ms=NOW_MS + READ_MS)
        assert len(own.former) == 1, "it was not read after the 30 days"
        own.forget_read(all_read_at_ms=NOW_MS + READ_MS, now_ms=NOW_MS + READ_MS)
    assert [each.number for each in (*own.former, own.current)] == [1]
    assert database.run("SELECT inbox FROM mesh_bucket") == [("contacts inbox 1",)]
    assert read_again(database)[1].former == ()


@clause("8.8", "11.7")
def test_people_see_which_contacts_inbox_is_in_use_and_which_are_former(database: Database, own: OwnAccess) -> None:
    assert own.shown_names == {"contacts inbox 0": "contacts inbox"}
    with database.transaction():
        own.rotate(now_ms=NOW_MS)
        own.rotate(now_ms=NOW_MS + DAY_MS)
    assert own.shown_names == {
        "contacts inbox 0": "former contacts inbox 1",
        "contacts inbox 1": "former contacts inbox 2",
        "contacts inbox 2": "contacts inbox",
    }


@clause("7.12", "8.8")
def test_removals_day_after_day_read_a_bounded_number_of_inboxes(database: Database, own: OwnAccess) -> None:
    with database.transaction():
        for day in range(MOST_FORMER_INBOXES + 5):
            own.rotate(now_ms=NOW_MS + day)
    assert [each.number for each in own.former] == list(range(5, MOST_FORMER_INBOXES + 5))
