"""client/contacts: contact files, verified before they are believed, and a book that survives a broken one."""

import base64
import errno
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restante.client import contacts
from restante.client.contacts import Contact, ContactBook, decode_contact, encode_contact
from restante.client.home import ClientDirectory
from restante.core.signed_places import sign_places
from restante.crypto.identity import Identity
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.testing.deterministic import FakeClock
from restante.wire.address import show_address
from support.client.client_pairs import RELAY, client_in
from support.spec.clauses import clause

MALLORY = Identity(b"m" * 32)


@pytest_asyncio.fixture
async def exported(tmp_path: Path) -> AsyncIterator[tuple[Contact, FakeClock]]:
    clock = FakeClock()
    client = client_in(tmp_path / "bob", clock=clock)
    yield replace(await client.as_contact(), name="bob"), clock
    await client.close()


def book_with(contact: Contact, home: Path) -> ContactBook:
    book = ContactBook(home / "contacts")
    book.add(contact)
    return book


def changed(contact: Contact, **fields: Any) -> bytes:
    return json.dumps(json.loads(encode_contact(contact)) | fields).encode()


async def test_a_contact_file_is_read_as_it_was_written(exported: tuple[Contact, FakeClock]) -> None:
    contact, clock = exported
    assert decode_contact(encode_contact(contact), now_ms=clock.now_ms(), name="bob") == contact
    assert contact.lane == show_address(contact.address)
    assert contact.control_lane == f"control:{contact.lane}"


@clause("3.14")
async def test_a_relay_that_the_owner_did_not_sign_is_refused(exported: tuple[Contact, FakeClock]) -> None:
    contact, clock = exported
    other = str(replace(RELAY, host="10.0.0.1"))
    with pytest.raises(RestanteError, match="not signed by their owner") as refused:
        decode_contact(changed(contact, places=[{"relay": other}]), now_ms=clock.now_ms())
    assert refused.value.code is Code.AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"form": "restante-contact-1"}, "must be of the form"),
        ({"places": []}, "1 to 8 places"),
        ({"places": "KEY@HOST:1"}, "1 to 8 places"),
        ({"places": [{"mesh": ""}]}, "must name a relay"),
        ({"places_issued_at_ms": "now"}, "whole number"),
        ({"places_signature": 7}, "must have the texts"),
        ({"places_signature": "~"}, "is not base64"),
        ({"bundle": base64.b64encode(b"x").decode()}, "at least"),
    ],
)
async def test_a_file_that_breaks_the_form_is_refused_by_name(
    exported: tuple[Contact, FakeClock], fields: dict[str, Any], reason: str
) -> None:
    contact, clock = exported
    with pytest.raises(Malformed, match=reason):
        decode_contact(changed(contact, **fields), now_ms=clock.now_ms())


async def test_one_broken_file_is_named_and_the_other_contacts_stay_usable(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    (tmp_path / "contacts" / "eve.json").write_bytes(b"{")
    assert book.refresh()
    assert [each.name for each in book] == ["bob"]
    assert book.problems == {"eve.json": "it is no contact file: it is not JSON"}
    assert book.named(contact.lane) == book.named("bob") == contact


async def test_what_is_no_file_among_the_contact_files_is_named_and_stops_nothing(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    (tmp_path / "contacts" / "link.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "contacts" / "folder.json").mkdir()
    os.mkfifo(tmp_path / "contacts" / "pipe.json")
    assert book.refresh()
    assert book.problems == dict.fromkeys(["folder.json", "link.json", "pipe.json"], "it is no regular file")
    assert book.named("bob") == contact
    assert not book.refresh()


async def test_a_copy_of_a_contact_file_hides_neither_name_and_the_newer_file_counts(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, clock = exported
    newer = replace(
        contact,
        places=sign_places((RELAY,), ClientDirectory(tmp_path / "bob").identity(), now_ms=clock.now_ms() + 1),
        name="zoe",
    )
    book = book_with(contact, tmp_path)
    (tmp_path / "contacts" / "copy.json").write_bytes(encode_contact(contact))
    assert book.refresh()
    assert book.named("bob") == book.named("copy") == contact
    assert [each.name for each in book] == ["bob"]
    (tmp_path / "contacts" / "zoe.json").write_bytes(encode_contact(newer))
    assert book.refresh()
    assert book.named("bob") == book.named("zoe") == newer
    assert book.problems == {}


async def test_only_files_that_changed_are_read_again(
    exported: tuple[Contact, FakeClock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    (tmp_path / "contacts" / "eve.json").write_bytes(b"{")
    assert book.refresh()
    read: list[str] = []
    parse = contacts._parse

    def counted(raw: bytes, name: str, what: str) -> Contact:
        read.append(name)
        return parse(raw, name, what)

    monkeypatch.setattr(contacts, "_parse", counted)
    (tmp_path / "contacts" / "eve.json").write_bytes(changed(contact, places_signature="~"))
    assert book.refresh()
    assert not book.refresh()
    assert read == ["eve"]
    assert list(book.problems) == ["eve.json"]
    (tmp_path / "contacts" / "eve.json").unlink()
    assert book.refresh()
    assert (read, book.problems, [each.name for each in book]) == (["eve"], {}, ["bob"])


@clause("3.14")
async def test_an_older_list_of_places_never_replaces_a_newer_one(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    older = replace(contact.places, issued_at_ms=contact.places.issued_at_ms - 1)
    with pytest.raises(Malformed, match="older than the one already known"):
        book.add(replace(contact, places=older))
    assert book.named("bob") == contact


@clause("8.8")
async def test_a_contact_is_removed_under_all_its_names(exported: tuple[Contact, FakeClock], tmp_path: Path) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    (tmp_path / "contacts" / "robert.json").write_bytes(encode_contact(contact))
    (tmp_path / "contacts" / "eve.json").write_text("of no use")
    book.refresh()
    book.remove(book.named("robert"))
    assert (list(book), list(book.problems)) == ([], ["eve.json"])
    assert [each.name for each in (tmp_path / "contacts").iterdir()] == ["eve.json"]


async def test_a_file_that_could_not_be_read_is_read_again_although_it_did_not_change(
    exported: tuple[Contact, FakeClock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contact, _ = exported
    book_with(contact, tmp_path)

    def failing(_path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(contacts, "_read", failing)
        book = ContactBook(tmp_path / "contacts")
        assert book.problems == {"bob.json": "cannot be read: Input/output error"}
    assert book.refresh()
    assert book.named("bob") == contact
    assert not book.refresh()


async def test_contacts_stay_known_while_their_directory_cannot_be_listed(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, _ = exported
    book = book_with(contact, tmp_path)
    directory = tmp_path / "contacts"
    directory.rename(tmp_path / "away")
    directory.symlink_to(directory)  # a link to itself: the system refuses to list it
    assert not book.refresh()
    assert book.named("bob") == contact
    with pytest.raises(StoreUnusable, match="the contacts cannot be read"):
        ContactBook(directory)


async def test_a_place_of_another_identity_is_refused_when_a_file_is_read(
    exported: tuple[Contact, FakeClock], tmp_path: Path
) -> None:
    contact, clock = exported
    forged = replace(contact, places=sign_places((RELAY,), MALLORY, now_ms=clock.now_ms()))
    book = ContactBook(tmp_path / "contacts")
    book.add(forged)
    assert list(book) == []
    assert list(book.problems) == ["bob.json"]
