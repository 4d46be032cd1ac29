"""Which addresses may become links. Anything else is shown as text and stays text."""

import re
from typing import Final
from urllib.parse import unquote

SAFE_SCHEMES: Final = ("http://", "https://", "mailto:", "tel:")
_UNSAFE: Final = re.compile(r"[\s<>\"`\\^{|}\x00-\x1f]")


def link_target(href: str) -> str | None:
    """The address as a link may carry it, or None where it may not be a link at all."""
    if not href.lower().startswith(SAFE_SCHEMES):
        return None
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), href)


def shown_address(href: str) -> str:
    """The address for the reader's eyes, on one line."""
    return re.sub(r"\s+", " ", href)


def is_own_label(href: str, label: str) -> bool:
    """`<https://a.example>` and `[a@b.example](mailto:a@b.example)` say their address already."""
    bare = href.removeprefix("mailto:")
    return label in (href, bare) or label == unquote(href) or label == unquote(bare)
