"""The file of enrolled journal keys in a lake: read it, and write it with one key more (SPEC 13.1)."""

import hashlib

from restante.core.fleet.enrolment import ENROLMENT_FILE, Enrolment, sign_enrolment, verify_enrolment
from restante.crypto.identity import Identity
from restante.fleet.lake.new_files import put_small_file, read_small_file
from restante.model.errors import StoreUnusable


def read_enrolment(root: str, operator_key: bytes | None) -> Enrolment | None:
    """Return the enrolled keys of a lake, or of a directory of segments; None without the operator's public key.

    Without a file nothing is enrolled. A file that the operator did not sign raises.
    """
    if operator_key is None:
        return None
    raw = _read(root)
    return Enrolment() if raw is None else verify_enrolment(raw, operator_key)


def accept_key(root: str, key: str, operator: Identity) -> Enrolment:
    """Enrol one journal key, signed by the operator."""
    known = read_enrolment(root, bytes(operator.address)) or Enrolment()
    enrolment = Enrolment(known.keys | {key})
    try:
        put_small_file(root, ENROLMENT_FILE, sign_enrolment(enrolment.keys, operator))
    except OSError as error:
        raise StoreUnusable(f"{ENROLMENT_FILE} cannot be written: {error}") from error
    return enrolment


def enrolment_stamp(root: str) -> str:
    """Return a value that changes when the file does."""
    raw = _read(root)
    return "none" if raw is None else hashlib.sha256(raw).hexdigest()[:16]


def _read(root: str) -> bytes | None:
    try:
        return read_small_file(root, ENROLMENT_FILE)
    except OSError as error:
        raise StoreUnusable(f"{ENROLMENT_FILE} cannot be read: {error}") from error
