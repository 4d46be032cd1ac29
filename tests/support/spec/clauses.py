"""The mark that ties a test to the clauses of SPEC it speaks for."""

import pytest


def clause(*numbers: str) -> pytest.MarkDecorator:
    """`@clause("4.1")`: a passing test with this mark shows that the clause holds."""
    return pytest.mark.clause(*numbers)
