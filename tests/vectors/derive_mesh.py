"""Derives tests/vectors/mesh.json: frames with descriptors, records and receipts, from the layouts in wire/.

Joins bytes and signs with `cryptography`; no line of Restante's.

    python tests/vectors/derive_mesh.py | cmp - tests/vectors/mesh.json
"""

import hashlib
import json
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NODE_SECRET = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
OPERATOR_SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
NOW_MS = 1_700_000_000_000
BLINDED, KEY, ONION = b"\xb1" * 32, b"\x1b" * 32, b"\x07" * 32
BUCKET, PERIOD = 472_222, 655
ENVELOPE, SEALED = b"an envelope", b"sealed"
HASHES = [bytes([first]) * 32 for first in (0x11, 0x22, 0x33)]
SIGNATURE = b"\x5e" * 64


def u(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big")


def sha(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def sign(secret: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).sign(message)


def public(secret: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


NODE, OPERATOR = public(NODE_SECRET), public(OPERATOR_SECRET)


def root(leaves: list[bytes]) -> bytes:
    """RFC 6962: split at the largest power of two below the number of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha(b"\x01" + root(leaves[:split]) + root(leaves[split:]))


def descriptor() -> bytes:
    v4, v6 = b"\x04" + bytes([127, 0, 1, 1]) + u(7700, 2), b"\x06" + b"\x20\x01" + bytes(13) + b"\x01" + u(7700, 2)
    certificate = OPERATOR + sign(OPERATOR_SECRET, b"restante-family-v1" + NODE)
    head = b"\x01\x06" + NODE + ONION + u(NOW_MS, 8) + u(NOW_MS + 7_200_000, 8)
    unsigned = head + b"\x02" + v4 + v6 + b"\x01" + certificate
    return unsigned + sign(NODE_SECRET, b"restante-descriptor-v1" + unsigned)


def leaf(sealed: bytes) -> bytes:
    return sha(b"\x00restante-stored-v1" + sha(KEY + u(NOW_MS, 8)) + sha(sealed))


def receipt() -> bytes:
    leaves = [leaf(each) for each in (b"first", SEALED, b"third")]
    top = root(leaves)
    unsigned = b"\x01" + top[:16] + top + u(NOW_MS, 8)
    path = u(1, 4) + u(3, 4) + leaves[0] + leaves[2]
    return unsigned + sign(NODE_SECRET, b"restante-ack-v1" + unsigned) + path


def fetch_done() -> bytes:
    top = root([sha(b"\x00restante-listed-v1" + each) for each in HASHES])
    unsigned = u(NOW_MS, 8) + KEY + u(5, 8) + u(8, 8) + u(3, 4) + top + b"\x01"
    return unsigned + sign(NODE_SECRET, b"restante-fetch-done-v1" + unsigned)


def bodies() -> dict[str, tuple[int, bytes]]:
    described = descriptor()
    listed = u(len(described), 2) + described
    record = b"\x01" + BLINDED + u(PERIOD, 8) + u(NOW_MS, 8) + SEALED + SIGNATURE
    entry = BLINDED + u(BUCKET, 8) + u(5, 8) + SIGNATURE
    joined = b"".join(HASHES)
    return {
        "AUTHENTICATE": (0x40, NODE + SIGNATURE),
        "FIND_NODE": (0x41, KEY + u(20, 1)),
        "NODES": (0x42, u(NOW_MS, 8) + listed),
        "SYNC_DIRECTORY": (0x43, u(9, 8) + KEY),
        "DIRECTORY_PAGE": (0x44, u(10, 8) + b"\x01" + KEY + listed),
        "PUBLISH_DESCRIPTOR": (0x45, described),
        "DESCRIPTOR_TAKEN": (0x46, u(NOW_MS, 8) + b"\x04" + bytes([127, 0, 1, 1]) + u(7700, 2)),
        "MESH_ROOM": (0x47, u(1_000_000, 8) + u(2**64 - 1, 8)),
        "MESH_PUT": (0x48, BLINDED + u(BUCKET, 8) + ENVELOPE),
        "MESH_STORED": (0x49, receipt()),
        "WRONG_BUCKET": (0x4A, u(NOW_MS, 8)),
        "NOT_RESPONSIBLE": (0x4B, u(NOW_MS, 8) + listed),
        "PUT_RECORD": (0x4C, record),
        "GET_RECORD": (0x4D, KEY),
        "RECORD": (0x4E, record),
        "FETCH": (0x50, entry),
        "MESH_SUBSCRIBE": (0x51, entry),
        "LISTED": (0x52, KEY + u(8, 8) + joined),
        "FETCH_DONE": (0x53, fetch_done()),
        "MESH_DELETE": (0x54, BLINDED + u(BUCKET, 8) + joined + SIGNATURE),
        "MESH_DELETED": (0x55, b""),
        "HAVE": (0x58, bytes(32) + b"\xff" * 32 + KEY + u(3, 4) + bytes([0x11 ^ 0x22 ^ 0x33]) * 32),
        "HAVE_LIST": (0x59, KEY + b"\x01" + joined),
        "WANT": (0x5A, KEY + joined),
        "BLOCK": (0x5B, BLINDED + u(BUCKET, 8) + ENVELOPE),
        "WANT_DONE": (0x5C, HASHES[0]),
        "HAVE_DONE": (0x5D, KEY),
    }


if __name__ == "__main__":
    frames = [
        {"name": name, "hex": (u(5 + len(body), 4) + u(number, 1) + u(7, 4) + body).hex()}
        for name, (number, body) in bodies().items()
    ]
    sys.stdout.write(json.dumps(frames, indent=2) + "\n")
