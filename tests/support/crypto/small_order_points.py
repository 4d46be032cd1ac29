"""The Ed25519 points of small order, under which one signature would be valid for many messages."""


def points_of_small_order() -> list[bytes]:
    """All encodings of the eight points whose order divides eight, from the curve's equation alone.

    A y below 19 could also be written as y + p; a point with x = 0 takes either sign.
    """
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p
    root_of_minus_one = pow(2, (p - 1) // 4, p)
    # y = 0 and y = ±1 have orders 4, 1 and 2. A point of order 8 doubles to y = 0, so x² = -y²: d·y⁴ + 2·y² - 1 = 0.
    square = pow(1 + d, (p + 3) // 8, p)
    square = square if square * square % p == (1 + d) % p else square * root_of_minus_one % p
    ys = {0, 1, p - 1}
    for y_squared in ((square - 1) * pow(d, -1, p) % p, (-square - 1) * pow(d, -1, p) % p):
        y = pow(y_squared, (p + 3) // 8, p)
        y = y if y * y % p == y_squared else y * root_of_minus_one % p
        if y * y % p == y_squared:
            ys |= {y, p - y}
    written = ys | {y + p for y in ys if y + p < 2**255}
    return [(y | sign << 255).to_bytes(32, "little") for y in sorted(written) for sign in (0, 1)]
