"""Times rounded to a few significant bits, as the bars of histograms that can be added up (SPEC 13.3)."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

SIGNIFICANT_BITS: Final = 9
"""Times below 512 ms stay exact; above, the error is less than 1/256 (SPEC 13.3 allows 2 %)."""


def rounded(ms: Column) -> Column:
    """Return the time without its lower bits; a negative one is rounded towards zero, too."""
    bits = sf.length(sf.bin(sf.abs(ms)))
    unit = sf.pow(sf.lit(2.0), sf.greatest(bits - SIGNIFICANT_BITS, sf.lit(0))).cast("long")
    return ms - ms % unit
