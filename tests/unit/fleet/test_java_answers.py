"""What a Java says of itself, read without running one."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.fleet.spark.java import major_version, parse_settings
from restante.model.errors import Malformed

ANSWER_OF_17 = """\
Picked up JAVA_TOOL_OPTIONS: -Djava.home = nowhere
Property settings:
    file.encoding = UTF-8
    java.class.version = 61.0
    java.home = /opt/a java/17
    java.specification.version = 17
    java.version = 17.0.15
    java.version.date = 2025-04-15
    java.vm.version = 17.0.15+6-LTS
openjdk version "17.0.15" 2025-04-15
"""


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("1.8.0_402", 8),
        ("1.8", 8),
        ("11", 11),
        ("11.0.22", 11),
        ("17.0.15", 17),
        ("17.0.15+6-LTS", 17),
        ("21", 21),
        ("25-ea", 25),
        ("26.0.1\n", 26),
    ],
)
def test_the_feature_release_is_read_from_a_version(version: str, major: int) -> None:
    assert major_version(version) == major


@pytest.mark.parametrize("version", ["", "java", "x17", "-17", "17x", "1.", "99999", "\N{ARABIC-INDIC DIGIT ONE}7"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(Malformed, match="not a Java version"):
        major_version(version)


@given(st.text())
def test_any_text_is_a_version_or_refused(text: str) -> None:
    with suppress(Malformed):
        assert 0 <= major_version(text) <= 9_999


def test_home_and_release_are_found_among_the_settings() -> None:
    assert parse_settings(ANSWER_OF_17) == (Path("/opt/a java/17"), 17)


@pytest.mark.parametrize("line", ["java.home = ", "java.version = "])
def test_an_answer_without_home_or_version_is_refused(line: str) -> None:
    rest = "\n".join(kept for kept in ANSWER_OF_17.splitlines() if not kept.strip().startswith(line))
    with pytest.raises(Malformed, match=r"no java\.home and java\.version"):
        parse_settings(rest)
