"""What `from restante import ...` gives: complete, typed, light, and described by its page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import restante
from support.docs.api_page import API_PAGE, GROUPS, api_page

STUB = Path(restante.__file__).with_suffix(".pyi")


def test_the_page_is_current_and_names_everything() -> None:
    assert API_PAGE.read_text("utf-8") == api_page(), "run: make docs"
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(restante.EXPORTS)


def test_the_stub_states_the_same_names_and_modules() -> None:
    stated = re.findall(r"^from (\S+) import (\w+) as \2$", STUB.read_text("utf-8"), re.MULTILINE)
    assert {name: module for module, name in stated} == restante.EXPORTS


@pytest.mark.parametrize("name", sorted(restante.EXPORTS))
def test_every_name_can_be_imported_and_is_described(name: str) -> None:
    thing = getattr(restante, name)
    assert (thing.__doc__ or "").strip()
    assert not thing.__doc__.startswith(f"{name}("), "a dataclass without a docstring of its own"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Pigeon'"):
        _ = restante.Pigeon  # type: ignore[attr-defined]


def test_the_package_alone_loads_nothing_heavy() -> None:
    heavy = "('asyncio', 'apsw', 'cryptography', 'restante.client', 'restante.node')"
    program = f"import restante, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
