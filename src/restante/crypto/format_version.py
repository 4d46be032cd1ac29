"""The first byte of everything secret that is kept on disk: which release's form it has."""

from restante.model.errors import Malformed, StoreUnusable


def checked_version(raw: bytes, what: str, *, newest: int) -> int:
    """The version, when this release can read it."""
    if not raw or raw[0] == 0:
        raise Malformed(f"this is no {what}: it has no version")
    if raw[0] > newest:
        raise StoreUnusable(
            f"a {what} of version {raw[0]} was written by a newer release; this one reads versions up to {newest}"
        )
    return raw[0]
