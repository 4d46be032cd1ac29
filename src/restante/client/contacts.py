"""The contacts of a client: one file each, with card, prekey bundle and places (SPEC 3.14, 8.1).

Card, bundle and places must be signed by the contact's identity. Card and places are verified when a file is read, the
bundle when a session is opened with it.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from restante.core.signed_bundles import verify_bundle
from restante.core.signed_places import SignedPlaces, is_newer, verify_places
from restante.crypto.identity import verify_card
from restante.model.contact_card import ContactCard
from restante.model.error_codes import Code
from restante.model.errors import Malformed, RestanteError, StoreUnusable
from restante.model.ids import Address
from restante.model.places import MeshPlace, Place
from restante.model.prekey_bundle import PrekeyBundle
from restante.model.states import Route
from restante.runtime.endpoints import parse_relay_place
from restante.runtime.private_file import write_private
from restante.wire.address import show_address
from restante.wire.places import MAX_PLACES
from restante.wire.prekey_bundle import MAX_BUNDLE_BYTES, decode_bundle

MAX_CONTACT_BYTES: Final = 2 * MAX_BUNDLE_BYTES
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
CONTROL_LANE: Final = "control:"
"""Prefix of the lane of control messages to a contact (SPEC 3.4)."""
_FORM: Final = "restante-contact-2"
_TEXTS: Final = ("address", "bundle", "places_signature")


class Recipient(NamedTuple):
    """Whose mail a lane carries, and where it may be stored, in the order to try (SPEC 3.14)."""

    address: Address
    places: tuple[Place, ...]


class _ContactFile(NamedTuple):
    """A file as it was read: with thousands of contacts, only those that change are parsed and verified again.

    One that could not be read has no stamp, so that it is read again each time.
    """

    stamp: tuple[int, int] | None
    contact: "Contact | None"
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """An identity we exchange mail with. `bundle` is kept as signed; its age is checked when a session is opened."""

    card: ContactCard
    bundle: bytes
    places: SignedPlaces
    name: str = ""

    @property
    def address(self) -> Address:
        return self.card.address

    @property
    def lane(self) -> str:
        """The outbox lane of mail to this contact: its address, whatever its places (SPEC 3.4, 3.14)."""
        return _lane_of(self.address)

    @property
    def route(self) -> Route:
        """The route of mail to this contact: that of its first place."""
        places = self.places.places
        return Route.MESH if places and isinstance(places[0], MeshPlace) else Route.RELAY

    @property
    def control_lane(self) -> str:
        """The outbox lane of acks and other control messages to this contact."""
        return CONTROL_LANE + self.lane

    def usable_bundle(self, *, now_ms: int) -> PrekeyBundle:
        return verify_bundle(self.bundle, owner=self.address, now_ms=now_ms)


def encode_contact(contact: Contact) -> bytes:
    """Return the contact file that `restante id export` writes. Everything in it is public."""
    fields = {
        "form": _FORM,
        "address": show_address(contact.address),
        "bundle": base64.b64encode(contact.bundle).decode(),
        "places": [_shown_place(place) for place in contact.places.places],
        "places_issued_at_ms": contact.places.issued_at_ms,
        "places_signature": base64.b64encode(contact.places.signature).decode(),
    }
    return json.dumps(fields, indent=1).encode() + b"\n"


def decode_contact(raw: bytes, *, now_ms: int, name: str = "", what: str = "the file") -> Contact:
    """Parse a contact file and verify every signature in it. Refuses a bundle too old to open a session with.

    `what` names the file in errors.
    """
    contact = _parse(raw, name, what)
    contact.usable_bundle(now_ms=now_ms)
    return contact


class ContactBook:
    """The contacts of one directory. A file is read again when it changed.

    Of several files with one address the newest counts, under each of their names. A file that can't be used is left
    out and named in `problems`; the other contacts stay usable.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._contacts: dict[Address, Contact] = {}
        self._by_name: dict[str, Contact] = {}
        self._recipients: dict[str, Recipient] = {}
        self.places: frozenset[Place] = frozenset()
        self._files: dict[str, _ContactFile] | None = None  # until they were read first
        self._removed: set[Address] = set()
        self.problems: dict[str, str] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read the files that changed, and return whether there were any.

        While the directory can't be listed, what was read before stays.
        """
        try:
            paths = sorted(path for path in _listed(self._directory) if path.suffix == ".json")
        except OSError as error:
            if self._files is None:
                raise StoreUnusable(f"the contacts cannot be read: {error.strerror}") from error
            return False
        stamps = {path.name: _stamp(path) for path in paths}
        known = self._files or {}
        if stamps == {name: file.stamp for name, file in known.items()}:
            return False
        self._files = {
            path.name: known[path.name]
            if path.name in known and known[path.name].stamp == stamps[path.name]
            else _tried(path, stamps[path.name])
            for path in paths
        }
        contacts = [file.contact for file in self._files.values() if file.contact is not None]
        self.problems = {name: file.problem for name, file in self._files.items() if file.contact is None}
        self._contacts = {}
        for contact in contacts:
            kept = self._contacts.get(contact.address)
            if kept is None or _issued(kept) < _issued(contact):
                self._contacts[contact.address] = contact
        self._by_name = {contact.name: self._contacts[contact.address] for contact in contacts}
        self._recipients = {
            contact.lane: Recipient(contact.address, contact.places.places) for contact in self._contacts.values()
        }
        self.places = frozenset(place for each in self._recipients.values() for place in each.places)
        return True

    def __iter__(self) -> Iterator[Contact]:
        return iter(sorted(self._contacts.values(), key=lambda contact: contact.name))

    def __contains__(self, address: object) -> bool:
        return address in self._contacts

    def get(self, address: Address) -> Contact | None:
        return self._contacts.get(address)

    def may_have(self, address: Address) -> bool:
        """Return False once an address certainly is no contact.

        A file that can't be used, perhaps for a moment only, may be the contact's, unless `remove` deleted it.
        """
        return address in self._contacts or (bool(self.problems) and address not in self._removed)

    def recipient(self, lane: str) -> Recipient | None:
        """Return whose mail an outbox lane carries and where it goes; None if that address is no contact."""
        return self._recipients.get(lane.removeprefix(CONTROL_LANE))

    def expect(self, address: Address) -> Contact:
        """Return the contact with this address; refuse with `NOT_FOUND` otherwise."""
        contact = self._contacts.get(address)
        if contact is None:
            raise RestanteError("that address is not among the contacts; add its file first", code=Code.NOT_FOUND)
        return contact

    def named(self, name: str) -> Contact:
        """Return the contact that was added under this name, or that has this address."""
        contact = self._by_name.get(name)
        if contact is None and (recipient := self._recipients.get(name)) is not None:
            contact = self._contacts[recipient.address]
        if contact is None:
            raise RestanteError(f"there is no contact called {name!r}", code=Code.NOT_FOUND)
        return contact

    def add(self, contact: Contact, *, now_ms: int = 0) -> None:
        """Write the contact's file under its name. A newer file of the same address replaces the older one.

        With `now_ms` it also replaces one that is stated more than a day ahead of that.
        """
        if not NAME.fullmatch(contact.name):
            raise Malformed(
                f"{contact.name!r} cannot be a contact's name: use 1 to 64 of a-z, 0-9, dot, underscore and hyphen, "
                "beginning with a letter or digit"
            )
        known = self._contacts.get(contact.address)
        if known is not None and known.name != contact.name:
            raise Malformed(f"this address is among the contacts already, as {known.name!r}")
        namesake = self._by_name.get(contact.name)
        if namesake is not None and namesake.address != contact.address:
            raise Malformed(f"another address is among the contacts as {contact.name!r}; choose another name")
        if known is not None and _is_older(contact.places.issued_at_ms, known.places.issued_at_ms, now_ms):
            raise Malformed("this file is older than the one already known; ask the contact for a new one")
        if known is not None and _is_older(_issued_at_ms(contact), _issued_at_ms(known), now_ms):
            raise Malformed(
                "the prekeys in this file are older than those already known; ask the contact for a new one"
            )
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the contacts cannot be written: {error.strerror}") from error
        write_private(self._directory / f"{contact.name}.json", [encode_contact(contact)])
        self._removed.discard(contact.address)
        self.refresh()

    def remove(self, contact: Contact) -> None:
        """Delete every file with the contact's address."""
        try:
            for name, file in (self._files or {}).items():
                if file.contact is not None and file.contact.address == contact.address:
                    (self._directory / name).unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the contact's file cannot be deleted: {error.strerror}") from error
        self._removed.add(contact.address)
        self.refresh()


def _tried(path: Path, stamp: tuple[int, int]) -> _ContactFile:
    """Return the contact of a file, or why the file can't be used."""
    try:
        if not path.is_file():  # a pipe would wait for its writer
            return _ContactFile(stamp, None, "it is no regular file")
        return _ContactFile(stamp, _parse(_read(path), path.stem, "it"), "")
    except OSError as error:
        return _ContactFile(None, None, f"cannot be read: {error.strerror}")
    except RestanteError as error:
        return _ContactFile(stamp, None, str(error))


def _listed(directory: Path) -> list[Path]:
    """Return what is in the directory. One that can't be read is no empty one, as it would be for `Path.glob`."""
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes when the file does. A link to nothing, or a file that was deleted meanwhile, has none."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)


def _is_older(stated_at_ms: int, known_ms: int, now_ms: int) -> bool:
    return stated_at_ms != known_ms and not is_newer(stated_at_ms, than_ms=known_ms, now_ms=now_ms)


def _issued_at_ms(contact: Contact) -> int:
    return decode_bundle(contact.bundle).issued_at_ms


def _issued(contact: Contact) -> tuple[int, int]:
    return (contact.places.issued_at_ms, _issued_at_ms(contact))


def read_contact(path: Path, *, now_ms: int, name: str = "") -> Contact:
    """Read and verify a contact file."""
    try:
        raw = _read(path)
    except OSError as error:
        raise RestanteError(f"{path} cannot be read: {error.strerror}", code=Code.NOT_FOUND) from error
    return decode_contact(raw, now_ms=now_ms, name=name, what=str(path))


@lru_cache(maxsize=4_096)  # every message asks for the lane of its contact
def _lane_of(address: Address) -> str:
    return show_address(address)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        raw = file.read(MAX_CONTACT_BYTES + 1)
    if len(raw) > MAX_CONTACT_BYTES:
        raise Malformed(f"{path} is no contact file: it has more than {MAX_CONTACT_BYTES} bytes")
    return raw


def _parse(raw: bytes, name: str, what: str) -> Contact:
    """Parse a contact file and verify card and places."""
    try:
        fields: Any = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):  # the latter for a file of nothing but brackets
        raise Malformed(f"{what} is no contact file: it is not JSON") from None
    if not isinstance(fields, dict) or fields.get("form") != _FORM:
        raise Malformed(f"{what} is no contact file: it must be of the form {_FORM}")
    texts = [fields.get(key) for key in _TEXTS]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed(f"{what} is no contact file: it must have the texts {', '.join(_TEXTS)}")
    address, bundle64, signature64 = (str(text) for text in texts)
    bundle = _base64(bundle64, f"{what} is no contact file: its bundle")
    card = verify_card(decode_bundle(bundle).card)
    if show_address(card.address) != address:
        raise Malformed(f"{what} is no contact file: its bundle belongs to another address")
    issued_at_ms = fields.get("places_issued_at_ms")
    if not isinstance(issued_at_ms, int) or isinstance(issued_at_ms, bool):
        raise Malformed(f"{what} is no contact file: places_issued_at_ms must be a whole number")
    signed = SignedPlaces(
        places=_places(fields.get("places"), what),
        issued_at_ms=issued_at_ms,
        signature=_base64(signature64, f"{what} is no contact file: its places_signature"),
    )
    return Contact(card=card, bundle=bundle, places=verify_places(signed, owner=card.address), name=name)


def _places(listed: Any, what: str) -> tuple[Place, ...]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_PLACES:
        raise Malformed(f"{what} is no contact file: it must list 1 to {MAX_PLACES} places")
    return tuple(_place(each, what) for each in listed)


def _place(listed: Any, what: str) -> Place:
    if isinstance(listed, dict) and listed == {"mesh": True}:
        return MeshPlace()
    if not isinstance(listed, dict) or not isinstance(listed.get("relay"), str):
        raise Malformed(f"{what} is no contact file: each of its places must name a relay or the mesh")
    return parse_relay_place(listed["relay"])


def _shown_place(place: Place) -> dict[str, object]:
    return {"mesh": True} if isinstance(place, MeshPlace) else {"relay": str(place)}


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed(f"{what} is not base64") from None
