"""Words of a small set as their places in a tuple, and back: what goes through a kernel, or a shuffle, is numbers.

Both are chains of comparisons: looking a word up in an array costs a row several times as much.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as sf


def encode_enum(column: Column, words: Sequence[str], *, otherwise: int) -> Column:
    """The place of a word among `words`."""
    found = sf.when(column == words[0], 0)
    for number, word in enumerate(words[1:], 1):
        found = found.when(column == word, number)
    return found.otherwise(otherwise)


def decode_enum(column: str, words: Sequence[str | None]) -> Column:
    """The word in that place; null where there is none."""
    number, spelled = sf.col(column), [(place, word) for place, word in enumerate(words) if word is not None]
    return reduce(
        lambda found, one: found.when(number == one[0], sf.lit(str(one[1]))),
        spelled[1:],
        sf.when(number == spelled[0][0], sf.lit(str(spelled[0][1]))),
    )
