"""Decide which addresses may become links. All others are shown as text."""

import re
from typing import Final
from urllib.parse import unquote

SAFE_SCHEMES: Final = ("http://", "https://", "mailto:", "tel:")
_UNSAFE: Final = re.compile(r"[\s<>\"`\\^{|}\x00-\x1f]")


def link_target(href: str) -> str | None:
    """Return the address as a link may carry it, or None if it must not be a link."""
    if not href.lower().startswith(SAFE_SCHEMES):
        return None
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), href)


def shown_address(href: str) -> str:
    """Return the address as readable text on one line."""
    return re.sub(r"\s+", " ", href)


def is_own_label(href: str, label: str) -> bool:
    """Return whether the label already shows the address, as in `<https://a.example>`."""
    bare = href.removeprefix("mailto:")
    return label in (href, bare) or label == unquote(href) or label == unquote(bare)
