"""Which address a node takes for its own if it listens on all interfaces: the one where others see it (SPEC 7.1).

What they say makes other nodes dial it there, and it dials no narrower scope than that of its own address.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from restante.policy.mesh.scopes import scope_of

NEEDS_FAMILIES: Final = 2
MOST_HEARD: Final = 64
"""Families whose word is kept until enough of them agree."""


@dataclass(slots=True)
class OwnAddress:
    """One word a family. `needs_families` is 1 in a private network."""

    needs_families: int = NEEDS_FAMILIES
    is_settled: bool = False
    """Whether enough families name the address that was chosen."""
    _words: dict[bytes, bytes] = field(default_factory=dict)

    def hear(self, family: bytes, ip: bytes, *, by: bytes) -> None:
        """A node of the family, which was dialled at the address `by`, sees this node at `ip`."""
        if is_credible(ip, by=by) and (family in self._words or len(self._words) < MOST_HEARD):
            self._words[family] = ip

    def choose(self, *, needs_families: int) -> bytes | None:
        """Return the address that most families name, of equal ones the first heard; None if too few name it."""
        for ip, families in Counter(self._words.values()).most_common(1):
            if families >= min(needs_families, self.needs_families):
                self.is_settled = families >= self.needs_families
                return ip
        return None


def is_credible(ip: bytes, *, by: bytes) -> bool:
    """Return whether a node at the address `by` may see this one at `ip`: at none that reaches less far than its own.

    Who is reached over the internet does not see the loopback interface or a private network of this node.
    """
    scope, reach = scope_of(ip), scope_of(by)
    return scope is not None and reach is not None and scope >= reach
