"""What every test run shares: the clause count, tiers by directory, the soak cases, and how Hypothesis draws."""

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.spec.conformance_plugin", "support.fleet.shared_spark", "pytester"]

TIERS = ("acceptance", "parity", "model", "sim", "contract", "fuzz", "arch", "unit", "vectors")
"""The longest tests first: no test process is left alone with a long one at the end."""

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the cases with the marker soak, and only these")


def pytest_configure() -> None:
    """Let tests interrupt the processes that they start.

    A parent that ignores SIGINT (`nohup make test &`) hands that on to every descendant. A handler of our own ends it
    here, because a started program gets the default action back for a signal that its parent handles.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marker
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests/<tier>/... the marker <tier>, sort by tier, and choose between soak and ordinary cases."""
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
    wants_soak = bool(config.getoption("soak"))
    items[:] = [item for item in items if (item.get_closest_marker("soak") is not None) == wants_soak]
    items.sort(key=lambda item: TIERS.index(item.path.relative_to(tests).parts[0]))
