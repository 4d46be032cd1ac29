"""What may stand in the repository: no path of somebody's machine, no registry, a lock that pins everything."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"

# Letters in brackets keep these patterns from finding themselves.
HOME = re.compile(r"/h[o]me/\w|/[U]sers/\w|/r[o]ot/|[A-Z]:\\\\?[U]sers")
REGISTRY = re.compile(r"pypi[.]org|pythonhosted[.]org|npmjs[.](org|com)|repo1?[.]maven|--(extra-)?index-[u]rl[ =]")
CHECKOUT_PARTS = 3  # a checkout right under / has a name too common to search for


def tracked_files() -> list[Path]:
    """The files of the next commit: known to git, or new and not ignored."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        text = path.read_text("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_no_file_names_a_home_directory() -> None:
    assert lines_with(HOME) == []


def test_no_file_names_the_directory_of_this_checkout() -> None:
    if len(ROOT.parts) >= CHECKOUT_PARTS:
        assert lines_with(re.compile(re.escape(str(ROOT)) + r"\b")) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize("text", ["cd /h" + "ome/ann/x", "/r" + "oot/.cache", "C:\\U" + "sers\\ann", "/U" + "sers/ann"])
def test_a_home_directory_would_be_found(text: str) -> None:
    assert HOME.search(text)


def requirements() -> dict[str, str]:
    """The lock's entries by their first words; an entry goes on while its lines are indented."""
    entries: dict[str, str] = {}
    name = ""
    for line in LOCK.read_text("utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name = line.removesuffix("\\").strip()
            entries[name] = ""
        else:
            entries[name] += line.strip() + "\n"
    return entries


def test_the_lock_has_no_addresses() -> None:
    assert "://" not in LOCK.read_text("utf-8")


def test_the_lock_pins_every_requirement_exactly() -> None:
    pin = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?==[\w.!+]+( ; .+)?")
    entries = requirements()
    assert len(entries) > 20
    assert [entry for entry in entries if not pin.fullmatch(entry)] == []


def test_the_lock_has_a_hash_for_every_requirement() -> None:
    hashed = re.compile(r"--hash=sha256:[0-9a-f]{64}( \\)?$", re.MULTILINE)
    assert [entry for entry, rest in requirements().items() if not hashed.search(rest)] == []
