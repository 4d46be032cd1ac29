"""What every test run shares: the clause count, tiers by directory, and how Hypothesis draws."""

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.spec.conformance_plugin", "pytester"]

TIERS = frozenset({"unit", "contract", "parity", "sim", "acceptance", "vectors", "arch"})

# Hypothesis loads "ci" by itself where the variable CI is set: there, equal commits draw equal examples.
# Elsewhere each run looks at new ones, and a failure prints the line that brings it back.
# How long something takes to draw or to run says more about the machine than about the code.
for profile in ("default", "ci"):
    settings.register_profile(
        profile,
        settings.get_profile(profile),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
        derandomize=profile == "ci",
    )


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """tests/<tier>/... gets the marker <tier>."""
    tests = config.rootpath / "tests"
    homeless = set()
    for item in items:
        place = item.path.relative_to(tests) if item.path.is_relative_to(tests) else item.path
        if place.parts[0] in TIERS and len(place.parts) > 1:
            item.add_marker(place.parts[0])
        else:
            homeless.add(str(place))
    if homeless:
        tiers = ", ".join(sorted(TIERS))
        raise pytest.UsageError(f"outside a tier directory of tests/ ({tiers}): {', '.join(sorted(homeless))}")
