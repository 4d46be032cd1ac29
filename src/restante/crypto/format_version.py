"""The version byte at the start of every secret value that is stored on disk."""

from restante.model.errors import Malformed, StoreUnusable


def check_version(raw: bytes, what: str, *, newest: int) -> int:
    """Return the version. Raise unless this release can read it."""
    if not raw or raw[0] == 0:
        raise Malformed(f"not a {what}: the version byte is missing")
    if raw[0] > newest:
        raise StoreUnusable(
            f"a {what} of version {raw[0]} was written by a newer release; this one reads versions up to {newest}"
        )
    return raw[0]
