"""Derives tests/vectors/blinded_key.json from SPEC 7.2 and 7.6 with plain integers: no curve library, no line of
Restante's.

    python tests/vectors/derive_blinded_keys.py | cmp - tests/vectors/blinded_key.json
"""

import hashlib
import json
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
BASE_Y = 4 * pow(5, P - 2, P) % P
ALICE_SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
NODE = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
SECRET, ENTROPY, MESSAGE = b"\xac" * 32, b"\xe7" * 32, b"poste restante"

Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    product = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, P - 2, P) % P
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, P - 2, P) % P
    return x, y


def multiply(scalar: int, point: Point) -> Point:
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def x_of(y: int, sign: int) -> int:
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return x if x & 1 == sign else P - x


BASE = (x_of(BASE_Y, 0), BASE_Y)


def packed(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def unpacked(raw: bytes) -> Point:
    number = int.from_bytes(raw, "little")
    y = number & (2**255 - 1)
    return x_of(y, number >> 255), y


def reduced(raw: bytes) -> int:
    return int.from_bytes(hashlib.sha512(raw).digest(), "little") % L


def vector(name: str, access_secret: bytes, place: bytes) -> dict[str, str]:
    clamped = bytearray(hashlib.sha512(ALICE_SECRET).digest()[:32])
    clamped[0] &= 248
    clamped[31] = clamped[31] & 127 | 64
    secret = int.from_bytes(clamped, "little")
    address = packed(multiply(secret, BASE))
    factor = reduced(b"restante-inbox-v1" + address + access_secret + place)
    blinded = packed(multiply(factor, unpacked(address)))
    scalar = factor * secret % L
    nonce = reduced(ENTROPY + scalar.to_bytes(32, "little") + MESSAGE)
    commitment = packed(multiply(nonce, BASE))
    answer = (nonce + reduced(commitment + blinded + MESSAGE) * scalar) % L
    return {
        "name": name,
        "address": address.hex(),
        "access_secret": access_secret.hex(),
        "place": place.hex(),
        "blinded_key": blinded.hex(),
        "inbox_key": hashlib.sha256(b"inbox:" + blinded + place).hexdigest(),
        "record_key": hashlib.sha256(b"keys:" + blinded).hexdigest(),
        "entropy": ENTROPY.hex(),
        "message": MESSAGE.hex(),
        "signature": (commitment + answer.to_bytes(32, "little")).hex(),
    }


if __name__ == "__main__":
    vectors = [
        vector("public inbox, bucket 472,222", b"", (472_222).to_bytes(8, "big")),
        vector("contacts inbox, bucket 472,222", SECRET, (472_222).to_bytes(8, "big")),
        vector("public inbox at a relay", b"", NODE),
        vector("contacts inbox at a relay", SECRET, NODE),
        vector("prekeys, period 655", b"", (655).to_bytes(8, "big")),
    ]
    sys.stdout.write(json.dumps(vectors, indent=2) + "\n")
