"""Hints that replace the general advice for a code, where a command knows better."""

import pytest

from restante.cli.client.home import NEW_PREKEYS, hinting, hinting_new_prekeys
from restante.cli.terminal import HINT
from restante.model.error_codes import Code
from restante.model.errors import RestanteError


@pytest.mark.parametrize(("code", "notes"), [(Code.RECIPIENT_NOT_FOUND, [HINT + NEW_PREKEYS]), (Code.MALFORMED, [])])
def test_only_prekeys_that_are_too_old_get_the_hint_to_ask_for_newer_ones(code: Code, notes: list[str]) -> None:
    with pytest.raises(RestanteError) as refused, hinting_new_prekeys():
        raise RestanteError("no", code=code)
    assert getattr(refused.value, "__notes__", []) == notes


def test_a_hint_without_a_code_is_for_every_error() -> None:
    with pytest.raises(RestanteError) as refused, hinting("Look again."):
        raise RestanteError("no", code=Code.MALFORMED)
    assert refused.value.__notes__ == [HINT + "Look again."]
