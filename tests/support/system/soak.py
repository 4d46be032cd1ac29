"""How a test with many cases leaves most of them to `make soak`."""

from collections.abc import Sequence

import pytest
from _pytest.mark.structures import ParameterSet


def first_now_rest_in_soak(cases: Sequence[object], now: int = 1) -> list[ParameterSet]:
    """Return `cases` for `parametrize`: the first `now` run in `make test`, the others in `make soak` only.

    A case that is a tuple gives one value to each name of `parametrize`.
    """
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[] if at < now else [pytest.mark.soak]) for at, case in enumerate(values)]
