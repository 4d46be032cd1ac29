"""Whether a running client reads its inboxes, and if not, at which place and since when. Crosses processes as JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from restante.model.errors import Malformed


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadPlace:
    """A place at which an inbox can't be read, as people write it. `code` and `text` are the last reason."""

    place: str
    since_ms: int
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingStatus:
    """`is_read` is whether each inbox in use is read somewhere. Without it, and without a place that fails, the client
    still tries."""

    is_read: bool = False
    is_part_read: bool = False
    """Whether another inbox is read."""
    failing: tuple[UnreadPlace, ...] = ()
    """The places at which no inbox that is read nowhere can be read; empty while one may still be."""

    @property
    def is_settled(self) -> bool:
        return self.is_read or bool(self.failing)

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_data(cls, data: object) -> Self:
        """Raises `Malformed`."""
        try:
            match data:
                case {"is_read": bool(is_read), "is_part_read": bool(is_part_read), "failing": [*failing]}:
                    places = tuple(UnreadPlace(**each) for each in failing)
                    return cls(is_read=is_read, is_part_read=is_part_read, failing=places)
        except TypeError as problem:
            raise Malformed("this is no status of reading") from problem
        raise Malformed("this is no status of reading")
