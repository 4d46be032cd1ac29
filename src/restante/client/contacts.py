"""Those we write to and take mail from: one file each, with card, prekey bundle and relay (SPEC 8.1).

A card and a bundle are believed only when their owner signed them. The relay is where to leave mail for them; it is
not signed: a wrong one costs delivery, not secrecy.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from restante.core.signed_bundles import verify_bundle
from restante.crypto.identity import verify_card
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.model.ids import Address
from restante.model.prekey_bundle import PrekeyBundle
from restante.runtime.endpoints import PinnedRelay, parse_pinned_relay
from restante.runtime.private_file import write_private
from restante.wire.address import show_address
from restante.wire.prekey_bundle import MAX_BUNDLE_BYTES, decode_bundle

MAX_CONTACT_BYTES: Final = 2 * MAX_BUNDLE_BYTES
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FORM: Final = "restante-contact-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """`bundle` is as it was signed; whether it is young enough is asked when a session is opened with it."""

    card: ContactCard
    bundle: bytes
    relay: PinnedRelay
    name: str = ""

    @property
    def address(self) -> Address:
        return self.card.address

    @property
    def lane(self) -> str:
        """The outbox's name for where their mail goes."""
        return str(self.relay)

    def usable_bundle(self, *, now_ms: int) -> PrekeyBundle:
        return verify_bundle(self.bundle, owner=self.address, now_ms=now_ms)


def encode_contact(contact: Contact) -> bytes:
    """What `restante id export` writes; all of it is public."""
    fields = {
        "form": _FORM,
        "address": show_address(contact.address),
        "bundle": base64.b64encode(contact.bundle).decode(),
        "relay": str(contact.relay),
    }
    return json.dumps(fields, indent=1).encode() + b"\n"


def decode_contact(raw: bytes, *, now_ms: int, name: str = "") -> Contact:
    """Refused unless the owner of the address signed card and bundle, and something can be written to it now."""
    contact = _parse(raw, name)
    contact.usable_bundle(now_ms=now_ms)
    return contact


class ContactBook:
    """The contacts of one directory, read anew when the directory changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._contacts: dict[Address, Contact] = {}
        self._stamp: tuple[tuple[str, int], ...] = ()
        self.refresh()

    def refresh(self) -> bool:
        """Look again; whether anything was different."""
        try:
            files = sorted(self._directory.glob("*.json")) if self._directory.is_dir() else []
            stamp = tuple((file.name, file.stat().st_mtime_ns) for file in files)
            if stamp == self._stamp:
                return False
            found = [_parse(_read(file), file.stem) for file in files]
        except OSError as error:
            raise StoreUnusable(f"the contacts cannot be read: {error.strerror}") from error
        self._contacts = {contact.address: contact for contact in found}
        self._stamp = stamp
        return True

    def __iter__(self) -> Iterator[Contact]:
        return iter(sorted(self._contacts.values(), key=lambda contact: contact.name))

    def get(self, address: Address) -> Contact | None:
        return self._contacts.get(address)

    def expect(self, address: Address) -> Contact:
        contact = self._contacts.get(address)
        if contact is None:
            raise RestanteError("that address is not among the contacts; add its file first", code=Code.NOT_FOUND)
        return contact

    def named(self, name: str) -> Contact:
        """By the name it was added under, or by its address."""
        for contact in self._contacts.values():
            if name in (contact.name, show_address(contact.address)):
                return contact
        raise RestanteError(f"there is no contact called {name!r}", code=Code.NOT_FOUND)

    def add(self, contact: Contact) -> None:
        """Kept under its name; a newer file of the same address takes the place of the older."""
        if not NAME.fullmatch(contact.name):
            raise Malformed(
                f"{contact.name!r} is no name for a contact: give 1 to 64 small letters, digits, dots, hyphens"
            )
        known = self._contacts.get(contact.address)
        if known is not None and known.name != contact.name:
            raise Malformed(f"this address is among the contacts already, as {known.name!r}")
        if any(one.name == contact.name and one.address != contact.address for one in self._contacts.values()):
            raise Malformed(f"another address is among the contacts as {contact.name!r}; choose another name")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the contacts cannot be written: {error.strerror}") from error
        write_private(self._directory / f"{contact.name}.json", [encode_contact(contact)])
        self.refresh()


def read_contact(path: Path, *, now_ms: int, name: str = "") -> Contact:
    """A contact somebody handed us as a file."""
    try:
        raw = _read(path)
    except OSError as error:
        raise RestanteError(f"{path} cannot be read: {error.strerror}", code=Code.NOT_FOUND) from error
    return decode_contact(raw, now_ms=now_ms, name=name)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(MAX_CONTACT_BYTES + 1)
    if len(raw) > MAX_CONTACT_BYTES:
        raise Malformed(f"{path.name} is no contact: it has more than {MAX_CONTACT_BYTES} bytes")
    return raw


def _parse(raw: bytes, name: str) -> Contact:
    """Cheap enough for every start: the owner's signature over card and bundle is checked when they are used."""
    what = name or "the file"
    try:
        fields: Any = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):  # the latter for a file of nothing but brackets
        raise Malformed(f"{what} is no contact: it is not JSON") from None
    if not isinstance(fields, dict) or fields.get("form") != _FORM:
        raise Malformed(f"{what} is no contact: it must be of the form {_FORM}")
    texts = [fields.get(key) for key in ("address", "bundle", "relay")]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed(f"{what} is no contact: it must have the texts address, bundle and relay")
    address, bundle64, relay = (str(text) for text in texts)
    try:
        bundle = base64.b64decode(bundle64, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed(f"{what} is no contact: its bundle is not base64") from None
    card = verify_card(decode_bundle(bundle).card)
    if show_address(card.address) != address:
        raise Malformed(f"{what} is no contact: its bundle belongs to another address")
    return Contact(card=card, bundle=bundle, relay=parse_pinned_relay(relay), name=name)
