"""The file of enrolled journal keys in a lake: read it, add a key, remove one (SPEC 13.1)."""

import hashlib

from restante.core.fleet.enrolment import ENROLMENT_FILE, Enrolment, check_not_older, sign_enrolment, verify_enrolment
from restante.crypto.identity import Identity
from restante.fleet.lake.new_files import put_small_file, read_small_file
from restante.model.error_codes import Code
from restante.model.errors import RestanteError, StoreUnusable


def read_enrolment(root: str, operator_key: bytes | None) -> Enrolment | None:
    """Return the enrolled keys of a lake, or of a directory of segments; None without the operator's public key.

    Without a file nothing is enrolled. A file that the operator did not sign raises.
    """
    if operator_key is None:
        return None
    raw = _read(root)
    return Enrolment() if raw is None else verify_enrolment(raw, operator_key)


def accept_key(root: str, key: str, operator: Identity, *, last_serial: int = 0) -> Enrolment:
    """Enrol one journal key, signed by the operator, whose last list for this lake had `last_serial`."""
    known = _newest(root, operator, last_serial)
    return _write(root, Enrolment(known.keys | {key}, known.serial + 1), operator)


def remove_key(root: str, key: str, operator: Identity, *, last_serial: int = 0) -> Enrolment:
    """Remove one journal key. From then on it is unknown: segments that it signed count for nothing.

    A stream keeps what it has read; it reads all segments again after a reset.
    """
    known = _newest(root, operator, last_serial)
    if key not in known.keys:
        raise RestanteError(f"the key {key} is not enrolled", code=Code.NOT_FOUND)
    return _write(root, Enrolment(known.keys - {key}, known.serial + 1), operator)


def enrolment_stamp(root: str) -> str:
    """Return a value that changes when the file does."""
    raw = _read(root)
    return "none" if raw is None else hashlib.sha256(raw).hexdigest()[:16]


def _newest(root: str, operator: Identity, last_serial: int) -> Enrolment:
    known = read_enrolment(root, bytes(operator.address)) or Enrolment()
    check_not_older(known, last_serial)
    return known


def _write(root: str, made: Enrolment, operator: Identity) -> Enrolment:
    try:
        put_small_file(root, ENROLMENT_FILE, sign_enrolment(made.keys, operator, made.serial))
    except OSError as error:
        raise StoreUnusable(f"{ENROLMENT_FILE} cannot be written: {error}") from error
    return made


def _read(root: str) -> bytes | None:
    try:
        return read_small_file(root, ENROLMENT_FILE)
    except OSError as error:
        raise StoreUnusable(f"{ENROLMENT_FILE} cannot be read: {error}") from error
