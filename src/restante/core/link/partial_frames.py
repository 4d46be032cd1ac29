"""The memory budget for frames that have not arrived whole (SPEC 6.8), for all connections of a node together."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Connection = TypeVar("Connection", bound=Hashable)


class PartialFrames(Generic[Connection]):
    """Bytes of partial frames by connection, in the order of their first bytes."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: dict[Connection, int] = {}
        self.total_bytes = 0

    def update(self, connection: Connection, size_bytes: int, *, is_new_frame: bool) -> list[Connection]:
        """Record what a connection holds now; return the connections to close so that the budget is kept.

        They are those whose frames began first: an honest frame is whole soon, a stalled one stays.
        """
        before = self._held.pop(connection, None) if is_new_frame or not size_bytes else self._held.get(connection)
        self.total_bytes += size_bytes - (before or 0)
        if size_bytes:
            self._held[connection] = size_bytes
        victims: list[Connection] = []
        while self.total_bytes > self._max_bytes:
            oldest = next(iter(self._held))
            self.total_bytes -= self._held.pop(oldest)
            victims.append(oldest)
        return victims

    def remove(self, connection: Connection) -> None:
        self.total_bytes -= self._held.pop(connection, 0)
