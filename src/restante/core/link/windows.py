"""Flow control of blobs on a subscription: what the node may send ahead, and when the client gives credit."""

from collections import deque
from typing import Final, NamedTuple

WINDOW_BLOBS: Final = 1_024
WINDOW_BYTES: Final = 2_097_152
CREDIT_INTERVAL_BLOBS: Final = WINDOW_BLOBS // 8
CREDIT_INTERVAL_BYTES: Final = WINDOW_BYTES // 8
"""What the application takes before the client sends CREDIT. A part of the window, so that the node never waits for a
credit that does not come; DELETE gives credit besides."""
MAX_UNTAKEN_BLOBS: Final = 4_096
MAX_UNTAKEN_BYTES: Final = 4 * WINDOW_BYTES
"""Several times a node's window: a node that sends more ahead breaks the protocol."""


class _Page(NamedTuple):
    through: int
    blobs: int
    size_bytes: int


class SendWindow:
    """The node's end: blobs that were sent and for which no credit has arrived."""

    __slots__ = ("_blobs", "_bytes", "_pages", "sent_through")

    def __init__(self) -> None:
        self._pages: deque[_Page] = deque()
        self._blobs = 0
        self._bytes = 0
        self.sent_through = 0

    @property
    def is_open(self) -> bool:
        return self._blobs < WINDOW_BLOBS and self._bytes < WINDOW_BYTES

    def sent(self, *, through: int, blobs: int, size_bytes: int) -> None:
        """Count a page; `through` is its last blob id."""
        self._pages.append(_Page(through, blobs, size_bytes))
        self._blobs += blobs
        self._bytes += size_bytes
        self.sent_through = through

    def credit(self, through: int) -> None:
        """Forget the pages that the client has taken whole."""
        pages = self._pages
        while pages and pages[0].through <= through:
            page = pages.popleft()
            self._blobs -= page.blobs
            self._bytes -= page.size_bytes


class ReceiveWindow:
    """The client's end: blobs that arrived, and what the application took since the last credit."""

    __slots__ = ("_taken_blobs", "_taken_bytes", "_untaken", "_untaken_bytes")

    def __init__(self) -> None:
        self._untaken = 0
        self._untaken_bytes = 0
        self._taken_blobs = 0
        self._taken_bytes = 0

    def received(self, blobs: int, size_bytes: int) -> bool:
        """Count blobs that arrived; return whether the node kept to the window."""
        self._untaken += blobs
        self._untaken_bytes += size_bytes
        return self._untaken <= MAX_UNTAKEN_BLOBS and self._untaken_bytes <= MAX_UNTAKEN_BYTES

    def taken(self, blobs: int, size_bytes: int) -> bool:
        """Count blobs the application took; return whether to send CREDIT now."""
        self._untaken -= blobs
        self._untaken_bytes -= size_bytes
        self._taken_blobs += blobs
        self._taken_bytes += size_bytes
        if self._taken_blobs < CREDIT_INTERVAL_BLOBS and self._taken_bytes < CREDIT_INTERVAL_BYTES:
            return False
        self._taken_blobs = self._taken_bytes = 0
        return True
