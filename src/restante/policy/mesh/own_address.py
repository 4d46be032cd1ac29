"""Which address a node takes for its own if it listens on all interfaces: the one where others see it (SPEC 7.1).

What they say makes other nodes dial it there, and it dials no narrower scope than that of its own address.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from restante.policy.mesh.scopes import scope_of

NEEDS_FAMILIES: Final = 2
MOST_HEARD: Final = 64
"""Families whose word is kept until enough of them agree, and as many nodes whose family is not known yet."""


@dataclass(slots=True)
class OwnAddress:
    """One word a family. `needs_families` is 1 in a private network.

    The family of a bootstrap node is not known before the directory is: its operator may have several of them. Their
    words count only while one family is enough, and settle nothing.
    """

    needs_families: int = NEEDS_FAMILIES
    is_settled: bool = False
    """Whether enough families name the address that was chosen."""
    _words: dict[bytes, bytes] = field(default_factory=dict)
    _words_of_nodes: dict[bytes, bytes] = field(default_factory=dict)
    """Of nodes whose family is not known."""

    def hear(self, node: bytes, ip: bytes, *, by: bytes, family: bytes | None) -> None:
        """A node, which was dialled at the address `by`, sees this one at `ip`. `family` is None if it is not known."""
        if family is None:
            words, voice = self._words_of_nodes, node
        else:
            words, voice = self._words, family
            self._words_of_nodes.pop(node, None)
        if is_credible(ip, by=by) and (voice in words or len(words) < MOST_HEARD):
            words[voice] = ip

    def choose(self, *, needs_families: int) -> bytes | None:
        """Return the address that most families name, of equal ones the first heard; None if too few name it."""
        needed = min(needs_families, self.needs_families)
        families = Counter(self._words.values())
        heard = families if needed > 1 else families + Counter(self._words_of_nodes.values())
        for ip, voices in heard.most_common(1):
            if voices >= needed:
                self.is_settled = families[ip] >= self.needs_families
                return ip
        return None


def is_credible(ip: bytes, *, by: bytes) -> bool:
    """Return whether a node at the address `by` may see this one at `ip`: at none that reaches less far than its own.

    Who is reached over the internet does not see the loopback interface or a private network of this node.
    """
    scope, reach = scope_of(ip), scope_of(by)
    return scope is not None and reach is not None and scope >= reach
