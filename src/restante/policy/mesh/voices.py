"""How many independent parties are behind what was said (SPEC 7.1, 7.10, 11.6).

An answer that its node did not sign can be made up by the node, and by the exit that passed it on. Two answers over one
exit, or two of one node, are one voice.
"""

from collections.abc import Iterable
from typing import Final

ENOUGH: Final = 2


def voices(answers: Iterable[frozenset[bytes]]) -> int:
    """Return 0 without answers, 1 if one party alone could have made all of them up, else 2. For each answer come all
    parties that could."""
    each = list(answers)
    if not each:
        return 0
    return 1 if frozenset.intersection(*each) else ENOUGH
